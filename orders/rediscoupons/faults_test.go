package rediscoupons

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/orders"
)

// TestAnsweredWithoutTheDatabase: who has one and who gets none do not reach it.
func TestAnsweredWithoutTheDatabase(t *testing.T) {
	t.Parallel()
	for _, ack := range []Ack{Committed, Issued} {
		p, store := onShelf(t, 2, ack)
		first, second := p.claim("a"), p.claim("b")
		if err := p.drainOnce(t.Context()); err != nil || first.Err != nil || second.Claim.Remaining != 0 {
			t.Fatalf("%s: %+v, %+v, %v", ack, first, second, err)
		}
		asked := store.asked
		if got := p.claim("c"); !errors.Is(got.Err, orders.ErrSoldOut) {
			t.Errorf("%s: too late: %+v", ack, got)
		}
		first.Created, first.Claim.Remaining = false, 0
		if got := p.claim("a"); got != first {
			t.Errorf("%s: again: %+v, want %+v", ack, got, first)
		}
		if s := p.Stats(); store.asked != asked || s.Issued != 2 || s.SoldOut != 1 || s.Bypassed != 0 || s.Refused != 0 {
			t.Errorf("%s: the database was asked %d times more, counted %+v", ack, store.asked-asked, s)
		}
	}
}

// TestRefusedWriterKeepsTheCoupon has a visitor who was given the last coupon, and whose
// claim then finds no worker: it stays theirs, and is written from the stream.
func TestRefusedWriterKeepsTheCoupon(t *testing.T) {
	t.Parallel()
	p, store := onShelf(t, 1, Committed)
	r := request("v")
	got := p.Claim(t.Context(), p.coupon, r, func(context.Context, orders.ClaimRequest) orders.Claimed {
		return orders.Claimed{Err: orders.ErrOverloaded}
	})
	if !errors.Is(got.Err, orders.ErrOverloaded) || len(store.claims) != 0 {
		t.Fatalf("no worker: %+v, written %v", got, store.claims)
	}
	if got := p.claim("another"); !errors.Is(got.Err, orders.ErrSoldOut) {
		t.Errorf("another: %+v", got)
	}
	if err := p.drainOnce(t.Context()); err != nil || store.claims["v"].Code != r.Code || p.entries(t) != 0 {
		t.Errorf("from the stream: %v, written %v", err, store.claims)
	}
	if got := p.claim("v"); got.Err != nil || got.Created || got.Claim.Code != r.Code {
		t.Errorf("asked again: %+v", got)
	}
}

// TestEntriesThatCannotBeWritten keep nobody else from being written: one of a coupon
// that is gone, one that cannot be read, one that the database fails at, and one beyond
// what there is.
func TestEntriesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	const visitors = 2*drainPage + 10
	p, store := onShelf(t, visitors, Issued)
	put := func(values ...any) {
		if err := p.client.XAdd(t.Context(), &redis.XAddArgs{Stream: claims, Values: values}).Err(); err != nil {
			t.Fatal(err)
		}
	}
	put("coupon", 7, "visitor", "of a coupon that is gone", "line", "default", "code", "A", "mark", "?")
	put("what", "is this")
	told := map[string]string{}
	for n := range visitors {
		visitor := fmt.Sprint("v", n)
		told[visitor] = p.claim(visitor).Claim.Code
	}
	put("coupon", 1, "visitor", "one too many", "line", "default", "code", "B", "mark", "?")
	bad := fmt.Sprint("v", drainPage/2)
	store.do(func() { store.bad = bad })
	if err := p.drainOnce(t.Context()); !errors.Is(err, orders.ErrDatabase) {
		t.Errorf("with one that fails: %v", err)
	}
	if len(store.claims) != visitors-1+1 || p.entries(t) != 1 {
		t.Errorf("%d written, %d in the stream", len(store.claims), p.entries(t))
	}
	// The one too many took the place of the one that fails: the database's word stands.
	store.do(func() { store.bad = "" })
	if err := p.drainOnce(t.Context()); err != nil || p.entries(t) != 0 {
		t.Errorf("%v, %d in the stream", err, p.entries(t))
	}
	delete(told, bad)
	for visitor, code := range told {
		if store.claims[visitor].Code != code {
			t.Errorf("%s was told %s and has %+v", visitor, code, store.claims[visitor])
		}
	}
	if s := p.Stats(); s.Refused != 2 || s.Drained != visitors {
		t.Errorf("counted %+v", s)
	}
}

// TestDatabaseAway has nothing lost while claims cannot be written, and does not ask for
// every page of them.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	const visitors = 3 * drainPage
	p, store := onShelf(t, visitors, Issued)
	for n := range visitors {
		p.claim(fmt.Sprint("v", n))
	}
	store.do(func() { store.away = true })
	if err := p.drainOnce(t.Context()); !errors.Is(err, orders.ErrDatabase) || store.asked != drainPage || p.entries(t) != visitors {
		t.Errorf("away: %v, asked for %d, %d in the stream", err, store.asked, p.entries(t))
	}
	store.do(func() { store.away = false })
	if err := p.drainOnce(t.Context()); err != nil || len(store.claims) != visitors || p.entries(t) != 0 {
		t.Errorf("back: %v, %d written, %d in the stream", err, len(store.claims), p.entries(t))
	}
}

// TestScriptRunTwice is what the client does when an answer is lost.
func TestScriptRunTwice(t *testing.T) {
	t.Parallel()
	p, _ := onShelf(t, 5, Issued)
	r := request("v")
	if _, err := p.issue(t.Context(), p.coupon, r); err != nil {
		t.Fatal(err)
	}
	got := p.Claim(t.Context(), p.coupon, r, nil)
	want := orders.Claimed{Claim: orders.Claim{CouponID: 1, Visitor: "v", Code: r.Code, Remaining: 4}, Created: true}
	if got != want || p.entries(t) != 1 {
		t.Errorf("twice: %+v, want %+v; %d in the stream", got, want, p.entries(t))
	}
}

// TestCodesExpireAndComeBack: a coupon that nobody has claimed for long is read anew.
func TestCodesExpireAndComeBack(t *testing.T) {
	t.Parallel()
	p, _ := onShelf(t, 2, Committed)
	lives := func(after string) {
		t.Helper()
		if ttl, err := p.client.TTL(t.Context(), codes(1)).Result(); err != nil || ttl <= keep/2 || ttl > keep {
			t.Errorf("after %s the codes live %v, %v", after, ttl, err)
		}
		if err := p.client.Expire(t.Context(), codes(1), keep/4).Err(); err != nil {
			t.Fatal(err)
		}
	}
	lives("reading them")
	first := p.claim("v")
	lives("a claim")
	if ttl, err := p.client.TTL(t.Context(), claims).Result(); err != nil || ttl > 0 {
		t.Errorf("the stream lives %v, %v", ttl, err)
	}
	if err := p.client.Del(t.Context(), codes(1)).Err(); err != nil {
		t.Fatal(err)
	}
	if got := p.claim("v"); got.Err != nil || got.Claim.Code != first.Claim.Code {
		t.Errorf("past Redis: %+v", got)
	}
	lives("a claim past Redis")
	if len(p.wanted) != 1 {
		t.Fatalf("%d are to be read", len(p.wanted))
	}
	if err := p.learnOnce(t.Context(), <-p.wanted); err != nil {
		t.Fatal(err)
	}
	before := p.Stats().Bypassed
	if got := p.claim("v"); got.Err != nil || got.Claim.Code != first.Claim.Code || p.Stats().Bypassed != before {
		t.Errorf("read anew: %+v", got)
	}
}

// TestTwoLearnAtOnce has two processes read thousands of claims while others are made.
func TestTwoLearnAtOnce(t *testing.T) {
	t.Parallel()
	const had, more = 2*pageSize + 300, 300
	a, store := onShelf(t, had+more, Committed)
	for n := range had {
		store.claim(request(fmt.Sprint("had-", n)))
	}
	a.look()
	b := newProcess(t, a.client, store, Committed)
	var wg sync.WaitGroup
	for _, p := range []*process{a, b} {
		wg.Go(func() {
			if err := p.learnOnce(t.Context(), 1); err != nil {
				t.Error(err)
			}
		})
		for n := range more {
			wg.Go(func() {
				if got := p.claim(fmt.Sprint("more-", n)); got.Err != nil {
					t.Errorf("meanwhile: %v", got.Err)
				}
			})
		}
	}
	wg.Wait()
	known, err := a.client.HGetAll(t.Context(), codes(1)).Result()
	if err != nil || len(known) != had+more+1 {
		t.Fatalf("Redis knows %d, %v", len(known)-1, err)
	}
	for visitor, claim := range store.claims {
		if known[visitor] != claim.Code {
			t.Errorf("%s has %s, Redis knows %s", visitor, claim.Code, known[visitor])
		}
	}
	if got := a.claim("late"); !errors.Is(got.Err, orders.ErrSoldOut) || a.Stats().SoldOut != 1 {
		t.Errorf("late: %+v", got)
	}
}

// TestClaimWhileLearning makes a claim that the page before has passed over.
func TestClaimWhileLearning(t *testing.T) {
	t.Parallel()
	p, store := onShelf(t, 2*pageSize, Committed)
	for n := range pageSize {
		store.claim(request(fmt.Sprint("had-", n)))
	}
	p.look()
	last, err := p.learnPage(t.Context(), 1, "")
	if err != nil || last == "" {
		t.Fatal(last, err)
	}
	if err := p.client.HDel(t.Context(), codes(1), "").Err(); err != nil { // as if it had known nothing before
		t.Fatal(err)
	}
	early := p.claim("early")
	if last, err = p.learnPage(t.Context(), 1, last); err != nil || last != "" {
		t.Fatal(last, err)
	}
	p.look()
	before := p.Stats().Bypassed
	if got := p.claim("early"); early.Err != nil || got.Claim.Code != early.Claim.Code || p.Stats().Bypassed != before {
		t.Errorf("claimed %+v, then %+v", early, got)
	}
}

// TestWantedOnce has a crowd ask for the same coupon to be read.
func TestWantedOnce(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, nil, newShelf(1), Committed)
	for n := range 3 * mostWanted {
		i.want(1)
		i.want(int64(n))
	}
	if len(i.wanted) != mostWanted || <-i.wanted != 1 || <-i.wanted != 0 {
		t.Errorf("%d are wanted", len(i.wanted))
	}
	i.want(3*mostWanted - 1) // for which there was no room
	if len(i.wanted) != mostWanted-1 {
		t.Errorf("%d are wanted", len(i.wanted))
	}
}

// TestStopWritesWhatWasAcknowledged ends a process before its next look into the stream.
func TestStopWritesWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	p, store := onShelf(t, 10, Issued)
	for n := range 10 {
		p.claim(fmt.Sprint("v", n))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil || len(store.claims) != 10 || p.entries(t) != 0 {
		t.Errorf("stopped: %v, %d written", err, len(store.claims))
	}
}

func TestNewRefusesOtherAcks(t *testing.T) {
	if _, err := New(nil, nil, "", discard); err == nil {
		t.Error("taken")
	}
}

// TestEntryOfAnother: Redis was emptied while a claim was on its way to the database, and
// the next one was noted under the same entry, as it happens when a clock is behind.
func TestEntryOfAnother(t *testing.T) {
	t.Parallel()
	p, store := onShelf(t, 5, Committed)
	got, err := p.issue(t.Context(), p.coupon, request("first"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.client.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	err = p.client.XAdd(t.Context(), &redis.XAddArgs{
		Stream: claims, ID: got.entry, Values: []any{"coupon", 1, "visitor", "second", "line", "default", "code", "S", "mark", "!"},
	}).Err()
	if err != nil {
		t.Fatal(err)
	}
	first := request("first")
	first.Code = got.code
	if err := p.settle(t.Context(), []settlement{{ClaimRequest: first, entry: got.entry, has: got.code}}); err != nil {
		t.Fatal(err)
	}
	if err := p.drainOnce(t.Context()); err != nil || store.claims["second"].Code != "S" || p.entries(t) != 0 {
		t.Errorf("%v, written %v", err, store.claims)
	}
}
