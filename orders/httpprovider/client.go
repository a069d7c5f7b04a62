// Package httpprovider asks a payment provider over HTTP.
//
// # Protocol
//
//	POST {url}/charges
//	Idempotency-Key: {order}-{attempt}
//	Authorization: Bearer {token}          where one is configured
//
//	{"order_id":"…","amount":1000,"method":"card"}
//
// 200 {"state":"paid","reference":"…"} and 402 {"state":"declined","reason":"…"} are
// answers. Everything else, be it another status, another body, a cut connection or no
// answer in time, says nothing about the payment: it is unknown, and asked for again
// with the same key. The provider must take the money once for a key, however often
// and however many at a time ask with it.
//
// A shop puts a small service that speaks this in front of the provider that it has.
// Package standin is one that only pretends.
package httpprovider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"sluice/orders"
)

// maxAnswer bounds what is read of an answer, in bytes, and of its header.
const maxAnswer = 64 << 10

// Options say which provider and how.
type Options struct {
	// URL is where the provider's /charges is, http or https.
	URL string
	// Token is sent as a bearer token, in place of a user and password in the URL.
	// Empty: none.
	Token string
	// AtOnce is how many calls there may be at the same time: as many connections
	// are kept open.
	AtOnce int
}

// Client is an [orders.Provider]. Close it after use.
type Client struct {
	charges *url.URL
	token   string
	http    *http.Client
}

var _ orders.Provider = (*Client)(nil)

// New checks the options; it does not connect. Its errors do not quote the URL, which
// may have a password.
func New(opts Options) (*Client, error) {
	u, err := url.Parse(opts.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the payment provider's URL is not http://host/path or https://host/path")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the payment provider's URL has a query or a fragment")
	case opts.AtOnce < 1:
		return nil, fmt.Errorf("the payment provider must be asked at least once at a time, not %d", opts.AtOnce)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	// The default keeps two connections and would reconnect all the time.
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = opts.AtOnce, opts.AtOnce
	transport.IdleConnTimeout = 90 * time.Second
	transport.MaxResponseHeaderBytes = maxAnswer
	return &Client{
		charges: u.JoinPath("charges"),
		token:   opts.Token,
		http: &http.Client{
			Transport: transport,
			// Who moves must be configured anew: money and secrets follow nobody.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Close gives the idle connections back.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

type question struct {
	OrderID string `json:"order_id"`
	Amount  int64  `json:"amount"`
	Method  string `json:"method"`
}

type answer struct {
	State     string `json:"state"`
	Reference string `json:"reference"`
	Reason    string `json:"reason"`
}

// Charge implements [orders.Provider]. net/http itself repeats a request with this
// header if the provider closed the idle connection at the same moment.
func (c *Client) Charge(ctx context.Context, p orders.Payment) (orders.Outcome, error) {
	body, err := json.Marshal(question{OrderID: p.OrderID, Amount: p.Amount, Method: p.Method})
	if err != nil {
		return orders.Outcome{}, fmt.Errorf("write the charge: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.charges.String(), bytes.NewReader(body))
	if err != nil {
		return orders.Outcome{}, withoutURL(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", p.Key())
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return orders.Outcome{}, withoutURL(err)
	}
	defer func() { _ = resp.Body.Close() }()
	// To its end, so that the connection can be used again.
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return orders.Outcome{}, fmt.Errorf("read the answer: %w", err)
	}
	return outcome(resp.StatusCode, got)
}

// withoutURL drops what net/http says about the request: the address may have a
// password or a key in it.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// outcome believes an answer only if status and body say the same: a 402 of something
// in between must not count as declined. It is not quoted: nobody knows what is in it.
func outcome(status int, body []byte) (orders.Outcome, error) {
	var a answer
	if len(body) > maxAnswer || status != http.StatusOK && status != http.StatusPaymentRequired {
		return orders.Outcome{}, fmt.Errorf("status %d with a body of %d bytes is no answer", status, len(body))
	}
	if err := json.Unmarshal(body, &a); err != nil {
		return orders.Outcome{}, fmt.Errorf("status %d with a body that is no JSON", status)
	}
	switch {
	case status == http.StatusOK && a.State == string(orders.Paid):
		return orders.Outcome{Paid: true, Reference: a.Reference}, nil
	case status == http.StatusPaymentRequired && a.State == string(orders.Declined):
		return orders.Outcome{Reference: a.Reference, Reason: a.Reason}, nil
	}
	return orders.Outcome{}, fmt.Errorf("status %d with another state", status)
}
