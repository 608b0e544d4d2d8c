// Package window answers when a designed window is open. It is pure: the caller
// passes the time, and the time zones are in the binary.
package window

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // the daemon's hosts need not have it

	"github.com/robfig/cron/v3"

	"github.com/slipway-gitops/slipway/engine/site"
)

// Window is a parsed window. The zero Window is never open.
//
// When the clock is set back, it shows some times of day twice: the first one
// counts. When the clock is set forward, it skips some: the moment of the
// change counts. So a window of From and To ends by the clock, and a window of
// Cron has its Length, whatever the clock does. An hour field of "*" goes on by
// the clock instead: it opens again in an hour that comes twice, and not for
// one that is skipped (cron(8) of Debian, on local time changes).
type Window struct {
	zone     *time.Location
	weekdays [7]bool
	// from and to are minutes of the day, for a window without cron.
	from, to int
	cron     *cron.SpecSchedule
	length   time.Duration
	// runs holds the starts of a day on which the clock is not set. Starts no
	// further apart than length form one run.
	runs []run
}

// run is a series of starts on a day, as minutes of the day.
type run struct{ first, last int }

// Limits of the search. A window that is open for longer counts as ending then.
// A cron that names no day for longer counts as never: 29 February may be eight
// years away.
const (
	LongestLength = 31 * 24 * time.Hour
	farthestEnd   = 32 * 24 * time.Hour
	farthestDay   = 9 * 366
	longestCron   = 200 // bytes
	maxKept       = 1000
)

// kept caches the parsed windows by value: a gate asks often, and a design has
// few. It is emptied when it is full.
var kept = struct {
	sync.Mutex
	windows map[string]Window
}{windows: map[string]Window{}}

// Parse reads a window of the design. The error says what is wrong with which
// field.
func Parse(w *site.Window) (Window, error) {
	key := fmt.Sprintf("%q %q %q %q %d %q", w.Days, w.From, w.To, w.Cron, w.Length, w.Zone)
	kept.Lock()
	defer kept.Unlock()
	if p, ok := kept.windows[key]; ok {
		return p, nil
	}
	p, err := parse(w)
	if err != nil {
		return Window{}, err
	}
	if len(kept.windows) >= maxKept {
		clear(kept.windows)
	}
	kept.windows[key] = p
	return p, nil
}

func parse(w *site.Window) (Window, error) {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil || w.Zone == "Local" {
		return Window{}, fmt.Errorf("zone %q is not a time zone of tzdata, such as Europe/Zurich", w.Zone)
	}
	p := Window{zone: zone}
	if w.Cron != "" {
		return p, p.parseCron(w)
	}
	return p, p.parseClock(w)
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func (p *Window) parseClock(w *site.Window) (err error) {
	for i, day := range weekdays {
		p.weekdays[i] = len(w.Days) == 0
		for _, d := range w.Days {
			p.weekdays[i] = p.weekdays[i] || d == day
		}
	}
	if p.weekdays == [7]bool{} {
		return fmt.Errorf("days: none of %q is a day of the week, such as mon", w.Days)
	}
	if p.from, err = minuteOf("from", w.From); err != nil {
		return err
	}
	if p.to, err = minuteOf("to", w.To); err != nil {
		return err
	}
	if p.from == p.to {
		return fmt.Errorf("the window ends when it begins, at %s", w.From)
	}
	return nil
}

func minuteOf(field, text string) (int, error) {
	t, err := time.Parse("15:04", text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not a time of day such as 22:00", field, text)
	}
	return t.Hour()*60 + t.Minute(), nil
}

var fiveFields = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

func (p *Window) parseCron(w *site.Window) error {
	p.length = time.Duration(w.Length)
	switch {
	case w.From != "" || w.To != "" || len(w.Days) > 0:
		return errors.New("a window has a cron and a length, or from, to and days")
	case p.length < time.Minute || p.length > LongestLength:
		return fmt.Errorf("length %s: a window of a cron is open for a minute at least and for 31 days at most", p.length)
	case len(w.Cron) > longestCron || strings.Contains(w.Cron, "="):
		return errors.New("cron has five fields as crontab(5), without a zone, in 200 bytes at most")
	}
	s, err := fiveFields.Parse(sundays(w.Cron))
	if err != nil {
		return fmt.Errorf("cron %q: %w", w.Cron, err)
	}
	p.cron = s.(*cron.SpecSchedule)
	p.runs = p.runsOfDay()
	return nil
}

// sundays rewrites day 7 of the week as day 0. crontab(5) has both for Sunday,
// but the library knows only 0.
func sundays(spec string) string {
	fields := strings.Fields(spec)
	if len(fields) != 5 {
		return spec
	}
	days := strings.Split(fields[4], ",")
	for i, day := range days {
		if from, isRange := strings.CutSuffix(day, "-7"); isRange {
			days[i] = from + "-6,0"
		} else if day == "7" {
			days[i] = "0"
		}
	}
	fields[4] = strings.Join(days, ",")
	return strings.Join(fields, " ")
}

func (p *Window) runsOfDay() []run {
	var runs []run
	for m := range 24 * 60 {
		if !has(p.cron.Hour, m/60) || !has(p.cron.Minute, m%60) {
			continue
		}
		if last := len(runs) - 1; last >= 0 && minutes(m-runs[last].last) <= p.length {
			runs[last].last = m
			continue
		}
		runs = append(runs, run{m, m})
	}
	return runs
}

func has(field uint64, value int) bool { return field&(1<<uint(value)) != 0 }

// span is a time during which the window is open.
type span struct{ start, end time.Time }

// At reports whether the window is open at t, when it then closes, and when it
// opens next after that; zero times if there is none. A window that is open for
// longer than a month is reported to close in a month. One that does not open
// within nine years is reported as never opening. The times are in the window's
// zone.
func (p Window) At(t time.Time) (open bool, until, next time.Time) {
	if p.zone == nil {
		return false, until, next
	}
	t = t.In(p.zone)
	today := dayOf(t)
	back := int(p.length/(24*time.Hour)) + 2
	for d := today - day(back); d <= today+farthestDay; d++ {
		for _, s := range p.spans(d) {
			switch {
			case !s.end.After(t):
			case !open && s.start.After(t), open && s.start.After(until):
				return open, until, s.start
			default:
				open = true
				until = later(until, s.end)
			}
			if open && until.Sub(t) > farthestEnd {
				return true, until, next
			}
		}
	}
	return open, until, next
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// spans returns the spans that begin on a day, in order.
func (p Window) spans(d day) []span {
	if p.cron == nil {
		return p.clockSpan(d)
	}
	if !p.begins(d) {
		return nil
	}
	start, end := reached(p.zone, d, 0), reached(p.zone, d+1, 0)
	if begin, finish := start.ZoneBounds(); begin.Equal(start) || !finish.IsZero() && !finish.After(end) {
		return p.spansAcross(d, start, end)
	}
	spans := make([]span, len(p.runs))
	for i, r := range p.runs {
		spans[i] = span{start.Add(minutes(r.first)), start.Add(minutes(r.last) + p.length)}
	}
	return spans
}

func minutes(m int) time.Duration { return time.Duration(m) * time.Minute }

func (p Window) clockSpan(d day) []span {
	if !p.weekdays[d.weekday()] {
		return nil
	}
	ends := d
	if p.to < p.from {
		ends++
	}
	s := span{reached(p.zone, d, p.from), reached(p.zone, ends, p.to)}
	if !s.start.Before(s.end) {
		return nil // the clock skips all of it
	}
	return []span{s}
}

// begins reports whether the cron names a day, as crontab(5): if both the day
// of the month and the day of the week are restricted, one of them has to
// match.
func (p Window) begins(d day) bool {
	_, month, date := time.Unix(int64(d)*24*60*60, 0).UTC().Date()
	const star = 1 << 63
	inMonth, inWeek := has(p.cron.Dom, date), has(p.cron.Dow, int(d.weekday()))
	if p.cron.Dom&star != 0 || p.cron.Dow&star != 0 {
		return has(p.cron.Month, int(month)) && inMonth && inWeek
	}
	return has(p.cron.Month, int(month)) && (inMonth || inWeek)
}

// spansAcross returns the spans that begin on a day, from start to end, on
// which the clock is set.
func (p Window) spansAcross(d day, start, end time.Time) []span {
	const everyHour = 1 << 63
	goesOn := p.cron.Hour&everyHour != 0
	var spans []span
	shown := -1 // the latest minute of the day that the clock has shown
	for t := start; t.Before(end); t = t.Add(time.Minute) {
		m := t.Hour()*60 + t.Minute()
		if dayOf(t) != d {
			continue
		}
		if goesOn && p.startsAt(m, m) || !goesOn && p.startsAt(shown+1, m) {
			spans = append(spans, span{t, t.Add(p.length)})
		}
		shown = max(shown, m)
	}
	if !goesOn && p.startsAt(shown+1, 24*60-1) {
		spans = append(spans, span{end, end.Add(p.length)})
	}
	return spans
}

// startsAt reports whether there is a start from one minute of the day to
// another.
func (p Window) startsAt(from, to int) bool {
	for m := from; m <= to; m++ {
		if has(p.cron.Hour, m/60) && has(p.cron.Minute, m%60) {
			return true
		}
	}
	return false
}

// day is a day of the calendar, counted from 1 January 1970.
type day int

func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day(floorDiv(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix(), 24*60*60))
}

func floorDiv(a, b int64) int64 {
	if a%b < 0 {
		return a/b - 1
	}
	return a / b
}

func (d day) weekday() time.Weekday { return time.Weekday(((int(d)+4)%7 + 7) % 7) } // 1970 began on a Thursday

// reached returns the first moment at which a zone's clock has reached a minute
// of a day.
func reached(zone *time.Location, d day, minute int) time.Time {
	clock := time.Unix(int64(d)*24*60*60+int64(minute)*60, 0)
	// No clock is two days away from UTC.
	for t := clock.Add(-48 * time.Hour).In(zone); ; {
		begin, finish := t.ZoneBounds()
		_, offset := t.Zone()
		at := clock.Add(-time.Duration(offset) * time.Second).In(zone)
		switch {
		case !finish.IsZero() && !at.Before(finish):
			t = finish
		case at.Before(begin):
			return begin
		default:
			return at
		}
	}
}
