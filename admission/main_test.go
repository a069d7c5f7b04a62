package admission_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the process that the instance tests start and kill.
func TestMain(m *testing.M) {
	if line := os.Getenv(childLine); line != "" {
		os.Exit(tickUntilTold(line, os.Getenv(childRedis)))
	}
	if line := os.Getenv(shopLine); line != "" {
		os.Exit(shopUntilTold(line, os.Getenv(childRedis), os.Getenv(shopCapacity)))
	}
	goleak.VerifyTestMain(m)
}
