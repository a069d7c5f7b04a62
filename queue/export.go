package queue

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// auditTime is RFC 3339 in UTC with milliseconds.
const auditTime = "2006-01-02T15:04:05.000Z07:00"

// ticketID is what a ticket can be called. Whoever is audited has written the file:
// an id with a line break in it would pass for two in [HashTickets], and others could
// rewrite the findings on the auditor's screen.
var ticketID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// auditHeader is the first row of an exported line.
var auditHeader = []string{"place", "entered", "admitted", "fetched", "outcome", "ticket_id", "bypass"}

// withoutBypass is how many columns the export of an earlier version has.
const withoutBypass = 6

// WriteCSV writes records as the export of a line: a header, then one row for
// each record. Times are RFC 3339 in UTC with milliseconds; what is not known is
// empty. bypass is 1 of those let in without the line.
func WriteCSV(w io.Writer, records []Record) error {
	out := csv.NewWriter(w)
	row := slices.Clone(auditHeader)
	_ = out.Write(row) // errors stay until the end
	for _, r := range records {
		row[0] = ""
		if r.Place != 0 {
			row[0] = strconv.FormatInt(r.Place, 10)
		}
		row[1], row[2], row[3] = csvTime(r.EnteredAt), csvTime(r.AdmittedAt), csvTime(r.FetchedAt)
		row[4], row[5], row[6] = string(r.Outcome), r.TicketID, ""
		if r.Bypassed {
			row[6] = "1"
		}
		_ = out.Write(row)
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("queue: writing the export: %w", err)
	}
	return nil
}

func csvTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(auditTime)
}

// ReadCSV reads what [WriteCSV] wrote, also before it had the column bypass. Errors
// name the line of the file.
func ReadCSV(r io.Reader) ([]Record, error) {
	in := csv.NewReader(bufio.NewReader(r))
	in.ReuseRecord = true // every row has as many fields as the header
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("queue: reading the export: it is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("queue: reading the export: %w", err)
	}
	if !slices.Equal(header, auditHeader) && !slices.Equal(header, auditHeader[:withoutBypass]) {
		return nil, fmt.Errorf("queue: reading the export: line 1: the header is %q, want %q", header, auditHeader)
	}
	var records []Record
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil { // names the line
			return nil, fmt.Errorf("queue: reading the export: %w", err)
		}
		record, err := parseRecord(row)
		if err != nil {
			line, _ := in.FieldPos(0)
			return nil, fmt.Errorf("queue: reading the export: line %d: %w", line, err)
		}
		records = append(records, record)
	}
}

// parseRecord reads one row, of as many fields as a header.
func parseRecord(row []string) (Record, error) {
	r := Record{Outcome: State(row[4]), TicketID: row[5]}
	var errs []error
	if row[0] != "" {
		place, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil || place < 1 {
			errs = append(errs, fmt.Errorf("%q is no place", row[0]))
		}
		r.Place = place
	}
	for i, at := range []*time.Time{&r.EnteredAt, &r.AdmittedAt, &r.FetchedAt} {
		text := row[1+i]
		if text == "" {
			continue
		}
		parsed, err := time.Parse(time.RFC3339Nano, text)
		parsed = parsed.UTC() // where it may have a year that RFC 3339 cannot write
		if err != nil || parsed.Year() < 0 || parsed.Year() > 9999 {
			errs = append(errs, fmt.Errorf("%s: %q is no time", auditHeader[1+i], text))
		}
		*at = parsed
	}
	switch r.Outcome {
	case "": // forgotten, which only a draw is not
		if !r.drawn() {
			errs = append(errs, errors.New("the outcome is missing"))
		}
	case Scheduled, Waiting, Closed, Admitted, Spent, Expired, Left, Removed:
	default:
		errs = append(errs, fmt.Errorf("%q is no outcome", row[4]))
	}
	if !ticketID.MatchString(r.TicketID) {
		errs = append(errs, fmt.Errorf("%.80q is no ticket id", r.TicketID))
	}
	if len(row) > withoutBypass && row[6] != "" {
		if r.Bypassed = row[6] == "1"; !r.Bypassed {
			errs = append(errs, fmt.Errorf("bypass is %.80q, want 1 or nothing", row[6]))
		}
	}
	return r, errors.Join(errs...)
}
