package window_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/window"
)

const layout = "Mon 2006-01-02 15:04 -0700"

// Switzerland sets its clocks forward at 02:00 on 28 March 2027, and back at
// 03:00 on 31 October.
func TestAt(t *testing.T) {
	zurich := func(w site.Window) site.Window { w.Zone = "Europe/Zurich"; return w }
	night := site.Window{Days: []string{"fri"}, From: "22:00", To: "04:00"}
	length := func(cron string, d time.Duration) site.Window {
		return site.Window{Cron: cron, Length: site.Duration(d)}
	}
	for _, c := range []struct {
		name        string
		window      site.Window
		at          string
		until, next string
	}{
		{"before it opens", night, "2027-06-04T21:59:59Z", "", "Fri 2027-06-04 22:00 +0000"},
		{"as it opens", night, "2027-06-04T22:00:00Z", "Sat 2027-06-05 04:00 +0000", "Fri 2027-06-11 22:00 +0000"},
		{"on the next day", night, "2027-06-05T03:59:59Z", "Sat 2027-06-05 04:00 +0000", "Fri 2027-06-11 22:00 +0000"},
		{"as it closes", night, "2027-06-05T04:00:00Z", "", "Fri 2027-06-11 22:00 +0000"},
		{"every day", site.Window{From: "01:00", To: "02:00"}, "2027-06-05T02:00:00Z", "", "Sun 2027-06-06 01:00 +0000"},
		{"in its zone", zurich(night), "2027-06-04T20:00:00Z", "Sat 2027-06-05 04:00 +0200", "Fri 2027-06-11 22:00 +0200"},
		{"ends by the clock in a short night", zurich(site.Window{From: "22:00", To: "04:00"}), "2027-03-27T22:00:00Z", "Sun 2027-03-28 04:00 +0200", "Sun 2027-03-28 22:00 +0200"},
		{"ends by the clock in a long night", zurich(site.Window{From: "22:00", To: "04:00"}), "2027-10-30T20:00:00Z", "Sun 2027-10-31 04:00 +0100", "Sun 2027-10-31 22:00 +0100"},
		{"begins at a time that is skipped", zurich(site.Window{From: "02:30", To: "04:00"}), "2027-03-28T00:59:00Z", "", "Sun 2027-03-28 03:00 +0200"},
		{"ends at a time that is skipped", zurich(site.Window{From: "01:00", To: "02:30"}), "2027-03-28T00:59:00Z", "Sun 2027-03-28 03:00 +0200", "Mon 2027-03-29 01:00 +0200"},
		{"is skipped altogether", zurich(site.Window{From: "02:15", To: "02:45"}), "2027-03-28T00:00:00Z", "", "Mon 2027-03-29 02:15 +0200"},
		{"begins at a time that comes twice", zurich(site.Window{From: "02:30", To: "04:00"}), "2027-10-31T00:30:00Z", "Sun 2027-10-31 04:00 +0100", "Mon 2027-11-01 02:30 +0100"},
		{"ends at a time that comes twice", zurich(site.Window{From: "01:00", To: "02:30"}), "2027-10-31T00:29:00Z", "Sun 2027-10-31 02:30 +0200", "Mon 2027-11-01 01:00 +0100"},
		{"does not open twice", zurich(site.Window{From: "02:15", To: "02:45"}), "2027-10-31T01:20:00Z", "", "Mon 2027-11-01 02:15 +0100"},

		{"cron", length("30 2 * * 1-5", time.Hour), "2027-06-05T03:00:00Z", "", "Mon 2027-06-07 02:30 +0000"},
		{"cron at a time that is skipped", zurich(length("30 2 * * *", time.Hour)), "2027-03-28T00:59:00Z", "", "Sun 2027-03-28 03:00 +0200"},
		{"cron that was skipped keeps its length", zurich(length("30 2 * * *", time.Hour)), "2027-03-28T01:00:00Z", "Sun 2027-03-28 04:00 +0200", "Mon 2027-03-29 02:30 +0200"},
		{"cron at a time that comes twice", zurich(length("30 2 * * *", time.Hour)), "2027-10-31T00:30:00Z", "Sun 2027-10-31 02:30 +0100", "Mon 2027-11-01 02:30 +0100"},
		{"cron keeps its length in a short night", zurich(length("0 22 * * *", 6*time.Hour)), "2027-03-27T21:00:00Z", "Sun 2027-03-28 05:00 +0200", "Sun 2027-03-28 22:00 +0200"},
		{"cron keeps its length in a long night", zurich(length("0 22 * * *", 6*time.Hour)), "2027-10-30T20:00:00Z", "Sun 2027-10-31 03:00 +0100", "Sun 2027-10-31 22:00 +0100"},
		{"cron of every hour goes on in the hour that comes twice", zurich(length("30 * * * *", 10*time.Minute)), "2027-10-31T00:40:00Z", "", "Sun 2027-10-31 02:30 +0100"},
		{"cron of every hour does not make up for the hour that is skipped", zurich(length("30 * * * *", 10*time.Minute)), "2027-03-28T00:40:00Z", "", "Sun 2027-03-28 03:30 +0200"},
		{"cron starts that overlap are one window", length("0,30,45 2-3 * * *", 40*time.Minute), "2027-06-05T02:10:00Z", "Sat 2027-06-05 04:25 +0000", "Sun 2027-06-06 02:00 +0000"},
		{"cron windows that overlap those of the next day", length("0 12 * * 6,0", 30*time.Hour), "2027-06-05T12:00:00Z", "Mon 2027-06-07 18:00 +0000", "Sat 2027-06-12 12:00 +0000"},
		{"cron of a day of the month or of the week", length("0 0 13 * 5", time.Hour), "2027-06-12T12:00:00Z", "", "Sun 2027-06-13 00:00 +0000"},
		{"cron of a Sunday as day 7", length("0 0 * * 7", time.Hour), "2027-06-12T12:00:00Z", "", "Sun 2027-06-13 00:00 +0000"},
		{"cron of days until Sunday as day 7", length("0 0 * * 2,5-7", time.Hour), "2027-06-13T12:00:00Z", "", "Tue 2027-06-15 00:00 +0000"},
		{"cron that has to wait for a leap day", length("0 0 29 2 *", time.Hour), "2096-03-01T00:00:00Z", "", "Fri 2104-02-29 00:00 +0000"},
		{"cron that names no day", length("0 0 31 2 *", time.Hour), "2027-06-05T00:00:00Z", "", ""},
		{"cron that never closes", length("* * * * *", time.Minute), "2027-06-05T00:00:00Z", "Thu 2027-07-08 00:00 +0000", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, err := window.Parse(&c.window)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, c.at)
			if err != nil {
				t.Fatal(err)
			}
			open, until, next := w.At(at)
			if open != (c.until != "") || text(until) != c.until || text(next) != c.next {
				t.Errorf("open %v until %q, next %q\nwant        %q, next %q", open, text(until), text(next), c.until, c.next)
			}
		})
	}
}

func text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(layout)
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		window site.Window
		want   string
	}{
		{site.Window{}, "from: "},
		{site.Window{From: "22:00", To: "24:00"}, `to: "24:00" is not a time of day`},
		{site.Window{From: "22:00", To: "22:00"}, "ends when it begins"},
		{site.Window{From: "22:00", To: "23:00", Days: []string{"funday"}}, "days: "},
		{site.Window{From: "22:00", To: "23:00", Zone: "Europe/Zurch"}, "zone "},
		{site.Window{From: "22:00", To: "23:00", Zone: "Local"}, "zone "},
		{site.Window{From: "22:00", To: "23:00", Zone: "../../etc/passwd"}, "zone "},
		{site.Window{Cron: "0 22 * * *"}, "length "},
		{site.Window{Cron: "0 22 * * *", Length: site.Duration(32 * 24 * time.Hour)}, "length "},
		{site.Window{Cron: "0 22 * * *", Length: site.Duration(time.Hour), From: "22:00"}, "a cron and a length, or"},
		{site.Window{Cron: "0 25 * * *", Length: site.Duration(time.Hour)}, `cron "0 25 * * *": `},
		{site.Window{Cron: "0 1 * * 8", Length: site.Duration(time.Hour)}, `cron "0 1 * * 8": `},
		{site.Window{Cron: "0 1 * * -7", Length: site.Duration(time.Hour)}, `cron "0 1 * * -7": `},
		{site.Window{Cron: "@daily", Length: site.Duration(time.Hour)}, `cron "@daily": `},
		{site.Window{Cron: "TZ=", Length: site.Duration(time.Hour)}, "five fields"},
		{site.Window{Cron: "CRON_TZ=UTC 0 1 * * *", Length: site.Duration(time.Hour)}, "five fields"},
	} {
		if _, err := window.Parse(&c.window); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Parse(%+v) = %v, want %q", c.window, err, c.want)
		}
	}
}

func TestZeroWindowIsNeverOpen(t *testing.T) {
	if open, until, next := (window.Window{}).At(time.Now()); open || !until.IsZero() || !next.IsZero() {
		t.Errorf("open %v until %v, next %v", open, until, next)
	}
}

// zones set their clocks by an hour, at midnight, by half an hour, twice in a
// month, by a whole day, or never.
var zones = []struct {
	name string
	from time.Time
}{
	{"Europe/Zurich", date(2027, 3, 27)}, {"Europe/Zurich", date(2027, 10, 30)},
	{"America/Sao_Paulo", date(2018, 11, 3)}, {"America/Sao_Paulo", date(2019, 2, 15)},
	{"Australia/Lord_Howe", date(2027, 4, 2)}, {"Australia/Lord_Howe", date(2027, 10, 1)},
	{"Africa/Casablanca", date(2027, 2, 6)}, {"America/Nuuk", date(2027, 3, 26)}, {"America/Nuuk", date(2027, 10, 29)},
	{"Pacific/Apia", date(2011, 12, 28)}, {"Asia/Kathmandu", date(2027, 3, 27)}, {"", date(2027, 3, 27)},
}

func date(y, m, d int) time.Time { return time.Date(y, time.Month(m), d, 0, 0, 0, 0, time.UTC) }

// A model that goes through the minutes one by one agrees.
func TestAgreesWithTheModel(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		z := zones[r.IntN(len(zones))]
		w := random(r)
		w.Zone = z.name
		p, err := window.Parse(&w)
		if err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, w, err)
		}
		m := modelOf(t, w, z.from)
		for range 40 {
			i := 2*24*60 + r.IntN(3*24*60)
			at := m.at(i).Add(time.Duration(r.IntN(60)) * time.Second)
			open, until, next := p.At(at)
			wantUntil, wantNext := m.after(i)
			if open != m.open[i] || open && !m.same(until, wantUntil) || !m.same(next, wantNext) {
				t.Fatalf("seed %d: %+v at %s: open %v until %s, next %s\nwant %v, %s, %s", seed, w, at, open, until, next, m.open[i], m.at(wantUntil), m.at(wantNext))
			}
		}
	}
}

func random(r *rand.Rand) site.Window {
	clock := func() string { return fmt.Sprintf("%02d:%02d", r.IntN(6), 15*r.IntN(4)) }
	if r.IntN(2) == 0 {
		w := site.Window{From: clock(), To: clock()}
		for w.To == w.From {
			w.To = fmt.Sprintf("%02d:%02d", r.IntN(24), r.IntN(60))
		}
		if r.IntN(2) == 0 {
			w.Days = []string{"sat", "sun", "wed"}[:1+r.IntN(3)]
		}
		return w
	}
	minute := []string{"0", "30", "*/15", "*", "7", "20,40"}[r.IntN(6)]
	hour := []string{"*", "0", "1", "2", "2-4", "*/2", "23", "0,3"}[r.IntN(8)]
	days := []string{"* * *", "* * 0", "* * 6,0", "28-31 * *", "1 * 6"}[r.IntN(5)]
	return site.Window{Cron: minute + " " + hour + " " + days,
		Length: site.Duration(time.Duration([]int{1, 10, 15, 45, 60, 90, 300, 1500}[r.IntN(8)]) * time.Minute)}
}

// model is whether a window is open, by the minute of its days.
type model struct {
	from time.Time
	open []bool
}

const modelDays = 12

func (m model) at(i int) time.Time { return m.from.Add(time.Duration(i) * time.Minute) }

// same says whether a time is that of a minute; the model knows nothing beyond
// its end.
func (m model) same(t time.Time, i int) bool {
	return i == len(m.open) && (t.IsZero() || !t.Before(m.at(i))) || t.Equal(m.at(i))
}

// after are the minutes at which the window closes and opens after one.
func (m model) after(i int) (closes, opens int) {
	for i < len(m.open) && m.open[i] {
		i++
	}
	closes = i
	for i < len(m.open) && !m.open[i] {
		i++
	}
	return closes, i
}

func modelOf(t *testing.T, w site.Window, from time.Time) model {
	zone, err := time.LoadLocation(w.Zone)
	if err != nil {
		t.Fatal(err)
	}
	m := model{from: from, open: make([]bool, modelDays*24*60)}
	if w.Cron != "" {
		m.fillCron(w, zone)
	} else {
		m.fillClock(w, zone)
	}
	return m
}

// wall is what a clock shows at a minute, as if it were UTC.
func (m model) wall(i int, zone *time.Location) time.Time {
	t := m.at(i)
	_, offset := t.In(zone).Zone()
	return t.Add(time.Duration(offset) * time.Second)
}

func clockTime(day time.Time, text string) time.Time {
	var hour, minute int
	fmt.Sscanf(text, "%d:%d", &hour, &minute)
	return day.Add(time.Duration(60*hour+minute) * time.Minute)
}

// fillClock opens the window at the first minute that shows From of a day, or
// later, and closes it at the first that shows To, or later.
func (m model) fillClock(w site.Window, zone *time.Location) {
	for d := -2; d < modelDays; d++ {
		begins := m.from.AddDate(0, 0, d)
		if len(w.Days) > 0 && !strings.Contains(strings.Join(w.Days, " "), strings.ToLower(begins.Weekday().String()[:3])) {
			continue
		}
		ends := begins
		if w.To < w.From {
			ends = ends.AddDate(0, 0, 1)
		}
		opens, closes := clockTime(begins, w.From), clockTime(ends, w.To)
		opened, closed := false, false
		for i := -3 * 24 * 60; i < len(m.open); i++ {
			shows := m.wall(i, zone)
			opened, closed = opened || !shows.Before(opens), closed || !shows.Before(closes)
			if closed {
				break
			}
			if opened && i >= 0 {
				m.open[i] = true
			}
		}
	}
}

// fillCron looks at every minute whether it, or one that the clock has skipped
// before it, is named for the first time.
func (m model) fillCron(w site.Window, zone *time.Location) {
	s, err := cron.ParseStandard(w.Cron)
	if err != nil {
		panic(err)
	}
	utc := *s.(*cron.SpecSchedule) // the library knows it of a clock that is never set
	utc.Location = time.UTC
	named := map[time.Time]bool{}
	for t := utc.Next(m.from.AddDate(0, 0, -5)); t.Before(m.from.AddDate(0, 0, modelDays+2)); t = utc.Next(t) {
		named[t] = true
	}
	everyHour := strings.Fields(w.Cron)[1] == "*"
	before := -3 * 24 * 60
	shown := m.wall(before-1, zone)
	for i := before; i < len(m.open); i++ {
		now := m.wall(i, zone)
		starts := everyHour && named[now]
		for t := shown.Add(time.Minute); !everyHour && !t.After(now); t = t.Add(time.Minute) {
			starts = starts || named[t]
		}
		if now.After(shown) {
			shown = now
		}
		for j := i; starts && j < i+int(time.Duration(w.Length)/time.Minute); j++ {
			if j >= 0 && j < len(m.open) {
				m.open[j] = true
			}
		}
	}
}

// Whatever is written in a window, it is refused or answers, and what it says
// of later times is true then.
func FuzzAt(f *testing.F) {
	f.Add("mon", "22:00", "04:00", "", int64(0), "Europe/Zurich", int64(1800000000))
	f.Add("", "", "", "*/7 2-4 * * 1,5", int64(90*time.Minute), "America/Sao_Paulo", int64(1541300000))
	f.Add("", "", "", "* * 29 2 *", int64(time.Minute), "Pacific/Apia", int64(-5000000000))
	f.Fuzz(func(t *testing.T, days, from, to, spec string, length int64, zone string, at int64) {
		if at < -1<<36 || at > 1<<36 {
			return // four thousand years are enough
		}
		w, err := window.Parse(&site.Window{Days: strings.Fields(days), From: from, To: to, Cron: spec, Length: site.Duration(length), Zone: zone})
		if err != nil {
			return
		}
		now := time.Unix(at, 0)
		open, until, next := w.At(now)
		if open != !until.IsZero() || open && !until.After(now) || !next.IsZero() && !next.After(now) {
			t.Fatalf("at %s: open %v until %s, next %s", now, open, until, next)
		}
		if open {
			if still, _, _ := w.At(until.Add(-1)); !still {
				t.Errorf("closed just before %s", until)
			}
		}
		if !next.IsZero() {
			if opened, _, _ := w.At(next); !opened {
				t.Errorf("closed at %s", next)
			}
			if early, _, _ := w.At(next.Add(-1)); early {
				t.Errorf("open just before %s", next)
			}
		}
	})
}

func BenchmarkAt(b *testing.B) {
	for name, w := range map[string]site.Window{
		"clock": {Days: []string{"sun"}, From: "22:00", To: "04:00", Zone: "Europe/Zurich"},
		"cron":  {Cron: "0 22 * * 1-5", Length: site.Duration(6 * time.Hour), Zone: "Europe/Zurich"},
		"dense": {Cron: "*/2 * * * *", Length: site.Duration(time.Minute), Zone: "Europe/Zurich"},
		"never": {Cron: "0 0 31 2 *", Length: site.Duration(time.Minute)},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := window.Parse(&w)
				if err != nil {
					b.Fatal(err)
				}
				p.At(date(2027, 6, 5))
			}
		})
	}
}
