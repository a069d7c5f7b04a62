package pages

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// State is what the page without scripts has to say. Those of a place in line are
// spelt as the line spells them.
type State string

// States beside those of a place.
const (
	None    State = "none"    // no place: one can be taken
	Old     State = "old"     // a place that is none any more
	Full    State = "full"    // the line takes nobody just now
	Blocked State = "blocked" // the line does not answer, or lets nobody know
	Proof   State = "proof"   // newcomers must work first, for which it takes scripts
	Login   State = "login"   // nobody says who is asking
	Unknown State = "unknown" // no such line
	Hasty   State = "hasty"   // asked too often
)

// States of a place.
const (
	waiting   State = "waiting"
	scheduled State = "scheduled"
	admitted  State = "admitted"
	closed    State = "closed"
)

// Plain is what the page without scripts says to one visitor.
type Plain struct {
	Line     string
	Language string // of the page
	Asked    string // the language that the address asks for; may be empty
	State    State

	Position, Length int64            // Position is 0 while nobody knows it
	Range            [2]time.Duration // of the wait; both 0 while nothing is known
	Reason           string           // why nothing moves, or waiting may be in vain
	Message          string           // the operator's
	OpensAt          time.Time        // zero while it is not known
	OpensIn          time.Duration

	Token               string
	UsableIn, ExpiresIn time.Duration
	NoCookie            bool          // a place was taken, and the browser did not keep it
	InLine, Scripted    bool          // whether they hold a ticket; whether only scripts can say who they are
	Again               time.Duration // when the page asks again by itself; 0 is never
	RetryIn             time.Duration // when it makes sense to try again by hand
}

// Plain renders the page without scripts.
func (p *Pages) Plain(v Plain) ([]byte, error) {
	texts := p.spoken[v.Language]
	var body bytes.Buffer
	if err := p.templates["plain"].Execute(&body, &plainPage{Plain: v, shell: p.shell(v.Line), pages: p, texts: texts}); err != nil {
		return nil, fmt.Errorf("pages: filling plain: %w", err)
	}
	return body.Bytes(), nil
}

// plainPage is what its template is given.
type plainPage struct {
	Plain
	shell
	pages *Pages
	texts map[string]string
}

// T is a text, with values for its braces in pairs of name and value.
func (d *plainPage) T(key string, pairs ...any) string {
	text := d.texts[key]
	for i := 0; i+1 < len(pairs); i += 2 {
		text = strings.ReplaceAll(text, fmt.Sprintf("{%s}", pairs[i]), fmt.Sprint(pairs[i+1]))
	}
	return text
}

// Self is the address of this page, in a language or as it was asked for.
func (d *plainPage) Self(language string) string {
	if language == "" {
		language = d.Asked
	}
	return PlainAddress(d.Plain.Line, language)
}

// Refresh is when and where the browser asks again; seconds are rounded up: nobody is to
// come before they were told to.
func (d *plainPage) Refresh() string {
	if d.Again <= 0 {
		return ""
	}
	return strconv.FormatInt(seconds(d.Again), 10) + "; url=" + d.Self("")
}

func seconds(d time.Duration) int64 { return max(1, int64(math.Ceil(d.Seconds()))) }

// says are the heading and the sentence below it, by state.
var says = map[State][2]string{
	waiting:   {"wait.title", "plain.waitingLead"},
	scheduled: {"wait.scheduled", "wait.scheduledLead"},
	admitted:  {"wait.admitted", "plain.admittedLead"},
	"spent":   {"wait.spent", "wait.spentLead"},
	"expired": {"wait.expired", "wait.expiredLead"},
	"left":    {"wait.left", "wait.leftLead"},
	"removed": {"wait.removed", "wait.removedLead"},
	closed:    {"wait.closed", "wait.closedLead"},
	None:      {"wait.none", "wait.noneLead"},
	Old:       {"wait.none", "wait.oldLead"},
	Full:      {"wait.full", "plain.outLead"},
	Blocked:   {"wait.blocked", "plain.outLead"},
	Proof:     {"plain.proof", "plain.proofLead"},
	Login:     {"wait.login", "wait.loginLead"},
	Unknown:   {"wait.unknown", "wait.unknownLead"},
	Hasty:     {"plain.hasty", "plain.outLead"},
}

// Heading is what the page says first.
func (d *plainPage) Heading() string {
	if d.State == waiting && d.Position == 1 {
		return d.T("wait.next")
	}
	return d.T(says[d.State][0])
}

// Lead is the sentence below the heading.
func (d *plainPage) Lead() string {
	switch {
	case d.State == admitted && d.UsableIn > 0:
		return d.T("plain.soonLead", "n", seconds(d.UsableIn))
	case d.State == admitted && !d.HandsOver():
		return d.T("plain.demoLead")
	case (d.State == Blocked || d.State == Hasty) && d.InLine:
		return d.T("plain.keptLead")
	}
	return d.T(says[d.State][1])
}

// reasons are the texts of why nothing moves.
var reasons = map[string]string{"paused": "wait.paused", "degraded": "wait.degraded", "sold_out": "wait.sold_out"}

// Why is the text of the reason; empty without one.
func (d *plainPage) Why() string {
	if d.Reason == "degraded" && d.State == waiting && d.Position == 0 {
		return d.T("wait.bypass")
	}
	return d.T(reasons[d.Reason])
}

// Behind is how many wait behind the visitor.
func (d *plainPage) Behind() int64 { return max(0, d.Length-d.Position) }

// Wait is the expected wait.
func (d *plainPage) Wait() string {
	switch {
	case d.Range[1] > 0:
		return d.span(d.Range[0], d.Range[1])
	case d.Reason == "paused" || d.Reason == "degraded":
		return "–"
	}
	return d.T("wait.measuring")
}

// units are what a wait is said in: below so much, in steps of so many of one.
var units = []struct {
	below, of time.Duration
	step      float64
	one, some string
}{
	{90 * time.Second, time.Second, 5, "plain.seconds", "plain.secondsRange"},
	{90 * time.Minute, time.Minute, 1, "plain.minutes", "plain.minutesRange"},
	{math.MaxInt64, time.Hour, 1, "plain.hours", "plain.hoursRange"},
}

// span says a wait as roughly as it is known.
func (d *plainPage) span(low, high time.Duration) string {
	if high < 10*time.Second {
		return d.T("time.now")
	}
	u := units[0]
	for _, u = range units {
		if high < u.below {
			break
		}
	}
	round := func(v time.Duration) int { return int(max(u.step, math.Ceil(float64(v)/float64(u.of)/u.step)*u.step)) }
	if a, b := round(low), round(high); a != b {
		return d.T(u.some, "a", a, "b", b)
	}
	return d.T(u.one, "a", round(high))
}

// Clock is a remaining time as m:ss or h:mm:ss, and as days and hours when it is long.
func (d *plainPage) Clock(left time.Duration) string {
	s := int64(max(0, math.Ceil(left.Seconds())))
	switch h, m := s/3600, s/60%60; {
	case h >= 48:
		return d.T("time.days", "d", h/24, "h", h%24)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s%60)
	default:
		return fmt.Sprintf("%d:%02d", m, s%60)
	}
}

// Later is when to try again by hand.
func (d *plainPage) Later() string { return d.span(d.RetryIn, d.RetryIn) }

// Opening is when the line opens. Nobody knows the visitor's zone here.
func (d *plainPage) Opening() string { return d.OpensAt.UTC().Format("2006-01-02 15:04 UTC") }

// Asks reports whether the page asks again by itself.
func (d *plainPage) Asks() bool { return d.Again > 0 }

// CanEnter and CanLeave report which button there is.
func (d *plainPage) CanEnter() bool {
	switch d.State {
	case None, Old, Full, "spent", "expired", "left", "removed":
		return true
	case Blocked, Hasty:
		return !d.InLine
	}
	return false
}

// CanLeave reports whether there is a place to give up.
func (d *plainPage) CanLeave() bool { return d.State == waiting || d.State == scheduled }

// Enter is what the button to enter says.
func (d *plainPage) Enter() string {
	switch d.State {
	case "spent", "expired", "left", "removed", Old:
		return d.T("wait.again")
	}
	return d.T("wait.enter")
}

// HandsOver reports whether the turn can be handed to a shop by a form: the demo shop
// is all script.
func (d *plainPage) HandsOver() bool { return d.pages.options.Shop != "/" }

// ShopAddress is where the turn goes.
func (d *plainPage) ShopAddress() string { return d.pages.options.Shop }

// Line is the line of the visitor.
func (d *plainPage) Line() string { return d.Plain.Line }

// Dir is the direction of writing.
func (d *plainPage) Dir() string { return d.T("dir") }

// Millis is a duration in ms.
func (d *plainPage) Millis(v time.Duration) int64 { return max(0, v.Milliseconds()) }

// Languages are those that there are, each with the page's address in it.
func (d *plainPage) Languages() []spokenLanguage {
	var all []spokenLanguage
	for _, code := range d.pages.codes {
		all = append(all, spokenLanguage{Code: code, Name: d.pages.languages[code], Address: d.Self(code), Current: code == d.Language})
	}
	return all
}

type spokenLanguage struct {
	Code, Name, Address string
	Current             bool
}
