// Package redisregister is the register of processes on Redis: one hash, which
// every process writes its own report to and reads the others' from, in one step.
package redisregister

import (
	"cmp"
	"context"
	_ "embed" // for the script
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/admission"
)

// Key is the register's key in Redis.
const Key = "sluice:processes"

// forgetAfter is how long the report of a dead process stays, for who looks into
// Redis to see what was there.
const forgetAfter = time.Minute

//go:embed publish.lua
var publishSource string

var publishScript = redis.NewScript(publishSource)

// Register is the register on Redis. See [admission.Register] for its contract.
type Register struct {
	client redis.UniversalClient
	key    string
}

var _ admission.Register = (*Register)(nil)

// New makes one on a key, which is [Key] but for tests; it does not connect yet.
// The client is closed by its owner.
func New(client redis.UniversalClient, key string) *Register {
	return &Register{client: client, key: key}
}

// Publish implements [admission.Register]. An entry that this version cannot read
// counts as none.
func (r *Register) Publish(ctx context.Context, report admission.Report) ([]admission.Report, error) {
	text, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("redisregister: writing the report: %w", err)
	}
	entries, err := publishScript.Run(ctx, r.client, []string{r.key}, report.Process, text,
		admission.StaleAfter.Milliseconds(), forgetAfter.Milliseconds()).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("%w: publishing: %w", admission.ErrRegister, err)
	}
	var live []admission.Report
	for _, entry := range entries {
		if report, err := parse(entry); err == nil {
			live = append(live, report)
		}
	}
	slices.SortFunc(live, func(a, b admission.Report) int { return cmp.Compare(a.Process, b.Process) })
	return live, nil
}

func parse(entry string) (report admission.Report, err error) {
	at, text, _ := strings.Cut(entry, " ")
	ms, badTime := strconv.ParseInt(at, 10, 64)
	if err := errors.Join(badTime, json.Unmarshal([]byte(text), &report)); err != nil {
		return admission.Report{}, err
	}
	report.At = time.UnixMilli(ms)
	return report, nil
}

// Withdraw implements [admission.Register].
func (r *Register) Withdraw(ctx context.Context, process string) error {
	if err := r.client.HDel(ctx, r.key, process).Err(); err != nil {
		return fmt.Errorf("%w: withdrawing: %w", admission.ErrRegister, err)
	}
	return nil
}
