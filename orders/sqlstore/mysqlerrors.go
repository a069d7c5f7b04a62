package sqlstore

import (
	"crypto/tls"
	"database/sql/driver"
	"errors"
	"net"
	"slices"

	"github.com/go-sql-driver/mysql"
)

// Server error numbers with a meaning of their own; the others are in the lists below.
const (
	mysqlNoAccess    = 1044
	mysqlNoSchema    = 1049
	mysqlDuplicate   = 1062
	mysqlLockTimeout = 1205
	mysqlDeadlock    = 1213
)

// mysqlGone are answers of a server that serves nobody right now, or not us, and may
// serve the same in a moment: a statement is repeated on them.
var mysqlGone = []uint16{
	1040, // no connection left,
	1203, // for this user,
	1226, // or of what this user may have
	1047, // Galera: this node is not one of the cluster's now
	1053, // it shuts down
	1077, // likewise
	1317, // the statement was ended by an operator
	1927, // MariaDB: the connection was
}

// mysqlReadOnly are answers of a server that takes no writes: a primary that has been
// demoted, or is about to.
var mysqlReadOnly = []uint16{1290, 1792, 1836}

// mysqlShort are answers of a server that has run out of something, and is not what it
// was asked for to blame. Repeating makes it no better at once; a start waits for it.
var mysqlShort = []uint16{
	1021, // disk full
	1028, // sort aborted, mostly for the same reason
	1037, // memory
	1038, // likewise
	1041, // likewise
	1114, // table full
	1129, // this host is blocked after too many broken connections, until an operator flushes
	1135, // threads
	1180, // error during COMMIT
}

// mysqlTooLarge are answers to a statement that is too large, which its halves are not.
var mysqlTooLarge = []uint16{
	1064, // for the driver to write its arguments into it: it prepares it then, and several at a time cannot be prepared
	1153, // for max_allowed_packet
	1436, // for the server's stack
}

func mysqlConflict(err error) bool {
	n := mysqlNumber(err)
	return n == mysqlDeadlock || n == mysqlLockTimeout
}

func mysqlAway(err error) bool {
	return slices.Contains(mysqlGone, mysqlNumber(err)) || mysqlDemoted(err) || connectionLost(err)
}

func mysqlDemoted(err error) bool { return slices.Contains(mysqlReadOnly, mysqlNumber(err)) }

// mysqlRefused goes by the class of the error, which is that of the SQL standard: 22 is
// for data that cannot be, 23 for data that may not be. Everything else is the
// database's own trouble, or ours, and the same with half of the group: asked again and
// again for a fault of its own, a database in trouble would only be kept in it.
func mysqlRefused(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return errors.Is(err, mysql.ErrPktTooLarge)
	}
	class := string(e.SQLState[:2])
	return class == "22" || class == "23" || slices.Contains(mysqlTooLarge, e.Number) ||
		e.Number == 1366 || e.Number == 3819 // MySQL puts text in another encoding, and what a check forbids, into no class
}

// mysqlPasses tells what a start waits for. Whoever is refused by a server that is there
// and well is so again: for its password, its rights, a host that may not connect, a
// statement of a migration. What cannot be told apart from a server that is not there
// yet is waited for, a name that does not resolve included.
func mysqlPasses(err error) bool {
	for _, ours := range []error{
		mysql.ErrNoTLS, mysql.ErrOldPassword, mysql.ErrNativePassword, mysql.ErrCleartextPassword, mysql.ErrUnknownPlugin,
	} {
		if errors.Is(err, ours) {
			return false
		}
	}
	if errors.As(err, new(*tls.CertificateVerificationError)) {
		return false
	}
	return mysqlNumber(err) == 0 || mysqlAway(err) || mysqlConflict(err) || slices.Contains(mysqlShort, mysqlNumber(err))
}

// connectionLost tells that a connection broke, or that none could be made.
func connectionLost(err error) bool {
	var network *net.OpError
	return errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.As(err, &network)
}

func mysqlNumber(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}
