package sqlstore

// together has write do a whole group in one transaction and returns the answers, one
// for each of the group.
//
// What the database refuses must not fail its neighbours. It does not say which of many
// rows it was, so the halves are written in transactions of their own, the earlier first,
// and their halves, down to the one that cannot be written: failed makes its answer of
// the error. One bad request among n costs about 2·log₂(n) more transactions, and
// nothing while there is none. A group that is too large for one statement is divided
// the same way. Trouble of the database's own fails the whole group at once, whatever it
// is: dividing it would only be more work for that database.
func together[Q, A any](s *Store, group []Q, write func([]Q) ([]A, error), failed func(error) A) []A {
	answers, err := write(group)
	if err == nil {
		return answers
	}
	if len(group) > 1 && s.dialect.refused(err) {
		half := len(group) / 2
		return append(together(s, group[:half], write, failed), together(s, group[half:], write, failed)...)
	}
	answers = make([]A, len(group))
	for i := range answers {
		answers[i] = failed(err)
	}
	return answers
}
