package sqlstore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
)

// amount is how many of the row with this id.
type amount struct {
	ID       int64
	Quantity int64
}

// add raises the column (sign +1) or lowers it (-1) in all the rows in one statement,
// which locks them in the order of the primary key: neither table that it is for has
// another index.
func add(tx *gorm.DB, table, column string, sign int64, amounts []amount) error {
	if len(amounts) == 0 {
		return nil
	}
	ids := make([]int64, len(amounts))
	var sql strings.Builder
	fmt.Fprintf(&sql, "UPDATE %s SET %s = %s + CASE id", table, column, column)
	for i, a := range amounts {
		ids[i] = a.ID
		fmt.Fprintf(&sql, " WHEN %d THEN %d", a.ID, sign*a.Quantity)
	}
	sql.WriteString(" END WHERE id IN (" + numbers(ids) + ")")
	return changeAll(tx, len(amounts), sql.String(), nil)
}

// numbers lists ids for an IN.
func numbers(ids []int64) string {
	list := make([]byte, 0, 8*len(ids))
	for i, id := range ids {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, id, 10)
	}
	return string(list)
}

// placeholders lists n of them, for an IN.
func placeholders(n int) string {
	return strings.TrimSuffix(strings.Repeat("?,", n), ",")
}

func boxed(list []string) []any {
	args := make([]any, len(list))
	for i, s := range list {
		args[i] = s
	}
	return args
}

// bulk makes one INSERT of many rows. Text goes as arguments; numbers, and ids that this
// package made, are written into the statement: less work for all who handle it. What
// is too long for one statement is refused, and divided by [together]: it takes full
// carts of products with pictures written out in their URLs to get there.
type bulk struct {
	tx    *gorm.DB
	into  string
	sql   strings.Builder
	args  []any
	inRow bool
}

func newBulk(tx *gorm.DB, into string) *bulk { return &bulk{tx: tx, into: into} }

// next begins a value.
func (b *bulk) next() {
	switch {
	case b.inRow:
		b.sql.WriteByte(',')
	case b.sql.Len() == 0:
		b.sql.WriteString(b.into + "(")
	default:
		b.sql.WriteString(",(")
	}
	b.inRow = true
}

func (b *bulk) number(n int64) {
	b.next()
	var digits [20]byte
	b.sql.Write(strconv.AppendInt(digits[:0], n, 10))
}

// id writes a UUID, in which there is nothing to escape.
func (b *bulk) id(id string) {
	b.next()
	b.sql.WriteByte('\'')
	b.sql.WriteString(id)
	b.sql.WriteByte('\'')
}

func (b *bulk) text(s string) {
	b.next()
	if s == "" {
		b.sql.WriteString("''")
		return
	}
	b.sql.WriteByte('?')
	b.args = append(b.args, s)
}

func (b *bulk) endRow() {
	b.sql.WriteByte(')')
	b.inRow = false
}

// exec inserts the rows, if there are any.
func (b *bulk) exec() error {
	if b.sql.Len() == 0 {
		return nil
	}
	_, err := change(b.tx, b.sql.String(), b.args)
	return err
}

// change and read run a statement on the transaction that gorm carries, and tell its
// trace. gorm itself writes each statement anew, byte by byte, and writes it out once
// more for its log, heard or not: for a large group that was a third of all that this
// process did.

// change returns how many rows it changed.
func change(db *gorm.DB, statement string, args []any) (n int64, err error) {
	begun := time.Now()
	result, err := db.Statement.ConnPool.ExecContext(db.Statement.Context, statement, args...)
	if err == nil {
		n, err = result.RowsAffected()
	}
	trace(db, begun, statement, n, err)
	return n, err
}

// changeAll fails unless so many rows are changed: they are locked, so that anything
// else is a mistake.
func changeAll(db *gorm.DB, want int, statement string, args []any) error {
	n, err := change(db, statement, args)
	if err == nil && n != int64(want) {
		return fmt.Errorf("changed %d of %d locked rows: %.50s", n, want, statement)
	}
	return err
}

// read reads all rows; fields are where the columns of one go.
func read[T any](db *gorm.DB, statement string, args []any, fields func(*T) []any) (all []T, err error) {
	begun := time.Now()
	defer func() { trace(db, begun, statement, int64(len(all)), err) }()
	rows, err := db.Statement.ConnPool.QueryContext(db.Statement.Context, statement, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row T
		if err := rows.Scan(fields(&row)...); err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

func trace(db *gorm.DB, begun time.Time, statement string, rows int64, err error) {
	db.Logger.Trace(db.Statement.Context, begun, func() (string, int64) { return statement, rows }, err)
}
