package sqlstore

import (
	"fmt"
	"strconv"
	"strings"

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
	result := tx.Exec(sql.String())
	if result.Error == nil && result.RowsAffected != int64(len(amounts)) {
		return fmt.Errorf("changed %d of %d locked %s", result.RowsAffected, len(amounts), table)
	}
	return result.Error
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

// bulk makes INSERTs of many rows. Text goes as arguments; numbers, and ids that this
// package made, are written into the statement, which halves the work of all who
// handle it.
//
// It is one statement unless that would be so long that a server refuses it: MySQL
// by max_allowed_packet (16 MB by default on MariaDB; escaping may double the text),
// SQLite by the number of arguments. 500 orders for one product are 0.1 MB; it takes
// carts full of pictures written out in their URLs to get there.
type bulk struct {
	tx    *gorm.DB
	into  string
	sql   strings.Builder
	args  []any
	bytes int // of the arguments
	inRow bool
	err   error
}

const (
	bulkBytes = 2 << 20
	bulkArgs  = 30_000 // SQLite takes 32,766
)

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
	b.bytes += len(s)
}

func (b *bulk) endRow() {
	b.sql.WriteByte(')')
	b.inRow = false
	if b.sql.Len()+b.bytes >= bulkBytes || len(b.args) >= bulkArgs {
		b.flush()
	}
}

func (b *bulk) flush() {
	if b.err == nil && b.sql.Len() > 0 {
		b.err = b.tx.Exec(b.sql.String(), b.args...).Error
	}
	b.sql.Reset()
	b.args, b.bytes = b.args[:0], 0
}

// exec runs what is left and returns the first error of all.
func (b *bulk) exec() error {
	b.flush()
	return b.err
}
