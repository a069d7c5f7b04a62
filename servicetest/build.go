package servicetest

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
)

// Build puts programs of this repository into a folder, or one at a path. It gives the
// compiler what make build gives it: what that has compiled is not compiled again.
func Build(ctx context.Context, into string, packages ...string) error {
	build := osexec.CommandContext(ctx, "go", append([]string{"build", "-trimpath", "-o", into}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
