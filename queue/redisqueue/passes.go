package redisqueue

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/queue"
)

// Passes tells of an error of [Check] or of a line whether it may pass by itself, as a
// Redis does that is not there yet, loads its data, has no master, or is slow. What an
// operator has to change does not: a password, a right, the memory policy, a database
// number that is not there, a certificate.
func Passes(err error) bool {
	switch {
	case redis.IsAuthError(err), redis.IsPermissionError(err),
		errors.As(err, new(*EvictionError)), errors.As(err, new(*tls.CertificateVerificationError)):
		return false
	}
	for _, refusal := range []string{"DB index is out of range", "SELECT is not allowed in cluster mode", "cluster support disabled"} {
		if strings.Contains(err.Error(), refusal) {
			return false
		}
	}
	return errors.Is(err, queue.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
}
