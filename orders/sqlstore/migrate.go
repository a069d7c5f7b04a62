package sqlstore

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// migrateUp applies what is missing. The caller holds the lock that keeps
// other processes from doing the same.
func migrateUp(ctx context.Context, d goose.Dialect, folder string, db *sql.DB) error {
	p, err := migrationsFor(d, folder, db)
	if err != nil {
		return err
	}
	there, ours, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the schema: %w", err)
	}
	if there > ours {
		// What it promises, this version does not know how to keep.
		return fmt.Errorf("%w: its schema is of version %d, which is of a later Sluice: this one knows %d", ErrUnusable, there, ours)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	return nil
}

func migrationsFor(d goose.Dialect, folder string, db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations/"+folder)
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(d, db, files, goose.WithLogger(goose.NopLogger()), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
}
