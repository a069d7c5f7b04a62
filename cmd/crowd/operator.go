package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// observer reads what the service says of itself: the public status, and the
// operator's figures and records where there is an operator's address.
type observer struct {
	http      *http.Client
	public    []*url.URL
	operators []*url.URL // of the instances, all of one line; empty: none
	token     string
	line      string
}

const dialTimeout = 10 * time.Second

func newObserver(public, operators []*url.URL, token, line string, remote bool) *observer {
	return &observer{
		http: &http.Client{
			Timeout: lastLook, // an audit of a million takes a while
			// No proxy: loopback means loopback.
			Transport:     &http.Transport{DialContext: dialer(dialTimeout, remote).DialContext},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		public: public, operators: operators, token: token, line: line,
	}
}

func (o *observer) close() { o.http.CloseIdleConnections() }

// get reads an answer with read.
func (o *observer) get(ctx context.Context, at string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	if o.token != "" && slices.ContainsFunc(o.operators, func(u *url.URL) bool { return strings.HasPrefix(at, u.String()) }) {
		req.Header.Set("Authorization", "Bearer "+o.token)
	}
	resp, err := o.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", at, resp.Status)
	}
	if err := read(resp.Body); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// status is what everybody may know of a line.
type status struct {
	State string `json:"state"`
	Draw  *struct {
		SeedSHA256 string  `json:"seed_sha256"`
		Seed       *string `json:"seed"`
	} `json:"draw"`
}

func (o *observer) status(ctx context.Context) (s status, err error) {
	err = anyOf(o.public, func(u *url.URL) error {
		return o.get(ctx, u.JoinPath("queue", "status").String()+"?line="+url.QueryEscape(o.line), func(r io.Reader) error {
			return json.NewDecoder(r).Decode(&s)
		})
	})
	return s, err
}

// anyOf asks one instance after the other until one answers.
func anyOf(instances []*url.URL, ask func(*url.URL) error) error {
	var errs []error
	for _, u := range instances {
		err := ask(u)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// seed is the published seed of the draw; empty without one, or before opening.
func (s status) seed() (string, error) {
	if s.Draw == nil || s.Draw.Seed == nil {
		return "", nil
	}
	sum := sha256.Sum256([]byte(*s.Draw.Seed))
	if got := hex.EncodeToString(sum[:]); got != s.Draw.SeedSHA256 {
		return "", fmt.Errorf("the published seed hashes to %s, not to %s as announced", got, s.Draw.SeedSHA256)
	}
	return *s.Draw.Seed, nil
}

// drawnPlace is the place of an early ticket, as the service documents it: the
// first 50 bits of HMAC-SHA256(seed, ticket id).
func drawnPlace(seed, id string) int64 {
	mac := hmac.New(sha256.New, []byte(seed))
	mac.Write([]byte(id))
	return max(1, int64(binary.BigEndian.Uint64(mac.Sum(nil))>>14))
}

// sample reads an operator's figures of the line.
func (o *observer) sample(ctx context.Context, operator *url.URL) (sample, error) {
	var figures struct {
		sample
		ServerTime string `json:"server_time"`
	}
	err := o.get(ctx, operator.JoinPath("admin", "api", "lines", o.line).String(), func(r io.Reader) error {
		return json.NewDecoder(r).Decode(&figures)
	})
	figures.At = wireMS(figures.ServerTime)
	return figures.sample, err
}

// audit reads the records of the line.
func (o *observer) audit(ctx context.Context) (records []record, err error) {
	err = anyOf(o.operators, func(u *url.URL) error {
		return o.get(ctx, u.JoinPath("admin", "api", "lines", o.line, "audit").String(), func(r io.Reader) error {
			records, err = readAudit(r)
			return err
		})
	})
	return records, err
}

// readAudit reads the CSV of an audit: place, entered, admitted, fetched,
// outcome, ticket_id, in any order.
func readAudit(r io.Reader) ([]record, error) {
	rows := csv.NewReader(r)
	rows.ReuseRecord = true
	head, err := rows.Read()
	if err != nil {
		return nil, fmt.Errorf("the head of the audit: %w", err)
	}
	at := map[string]int{}
	for _, name := range []string{"place", "entered", "admitted", "fetched", "outcome", "ticket_id"} {
		if at[name] = slices.Index(head, name); at[name] < 0 {
			return nil, fmt.Errorf("the audit has no column %q", name)
		}
	}
	var all []record
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("row %d of the audit: %w", len(all)+1, err)
		}
		place, err := strconv.ParseInt(row[at["place"]], 10, 64)
		if err != nil && row[at["place"]] != "" {
			return nil, fmt.Errorf("row %d of the audit: %w", len(all)+1, err)
		}
		all = append(all, record{
			ID: strings.Clone(row[at["ticket_id"]]), Place: place, Outcome: strings.Clone(row[at["outcome"]]),
			Entered: wireMS(row[at["entered"]]), Admitted: wireMS(row[at["admitted"]]), Fetched: wireMS(row[at["fetched"]]),
		})
	}
}
