package sqlstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm"
)

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
	into  string
	rows  int
	sql   strings.Builder
	args  []any
	inRow bool
}

func newBulk(into string) *bulk { return &bulk{into: into} }

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
	b.rows++
}

// statement inserts the rows; it is empty if there are none.
func (b *bulk) statement() statement {
	return statement{sql: b.sql.String(), args: b.args, rows: b.rows}
}

// amount is how many of the row with this id.
type amount struct {
	ID       int64
	Quantity int64
}

// adding raises the column (sign +1) or lowers it (-1) in all the rows, which are locked
// in the order of the primary key: neither table that it is for has another index.
func adding(table, column string, sign int64, amounts []amount) statement {
	if len(amounts) == 0 {
		return statement{}
	}
	ids := make([]int64, len(amounts))
	var sql strings.Builder
	fmt.Fprintf(&sql, "UPDATE %s SET %s = %s + CASE id", table, column, column)
	for i, a := range amounts {
		ids[i] = a.ID
		fmt.Fprintf(&sql, " WHEN %d THEN %d", a.ID, sign*a.Quantity)
	}
	sql.WriteString(" END WHERE id IN (" + numbers(ids) + ")")
	return statement{sql: sql.String(), rows: len(ids)}
}

// write and read run statements on the connection that gorm carries, and tell its trace.
// gorm itself writes each statement anew, byte by byte, and writes it out once more for
// its log, heard or not: for a large group that was a third of all that this process did.

// statement is one that writes.
type statement struct {
	sql  string // empty: nothing to do
	args []any
	rows int // that it changes; all are new or locked, so any other number is a mistake
}

// write runs the statements, on a workers' connection in one round trip if the database
// takes several at a time: a lone order waits for round trips more than for anything
// else, and who waits for its locks waits as well. Then it hears how many rows the last
// one changed, and of the others that they succeeded.
func (s *Store) write(tx *gorm.DB, all ...statement) error {
	all = slices.DeleteFunc(all, func(st statement) bool { return st.sql == "" })
	if s.dialect.several && len(all) > 1 {
		all = []statement{joined(all)}
	}
	for _, st := range all {
		n, err := change(tx, st)
		if err == nil && n != int64(st.rows) {
			err = fmt.Errorf("%d rows were changed, not %d, by %.50s", n, st.rows, st.sql)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func joined(all []statement) (one statement) {
	texts := make([]string, len(all))
	for i, st := range all {
		texts[i] = st.sql
		one.args = append(one.args, st.args...)
		one.rows = st.rows
	}
	one.sql = strings.Join(texts, ";")
	return one
}

func change(tx *gorm.DB, st statement) (n int64, err error) {
	begun := time.Now()
	result, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, st.sql, st.args...)
	if err == nil {
		n, err = result.RowsAffected()
	}
	trace(tx, begun, st.sql, n, err)
	return n, err
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
