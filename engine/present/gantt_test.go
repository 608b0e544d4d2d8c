package present_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

// after is a time of the charts, in minutes after their beginning.
func after(minutes int) time.Time { return now.Add(time.Duration(minutes) * time.Minute) }

func between(from, to int) site.Span { return site.Span{From: after(from), To: after(to)} }

// rolling is a rollout that has everything that a chart can have.
func rolling() *site.RolloutChart {
	return &site.RolloutChart{
		Site: "berlin", Revision: site.Revision{ID: "4f3c72169a", Subject: "web: nginx 1.28"}, Now: after(34), From: after(0), To: after(130), Since: after(0), Ends: after(124),
		Soak:   between(9, 19),
		Counts: map[site.MachineState]int{site.MachineDone: 2, site.MachineRunning: 2, site.MachineWaiting: 5, site.MachineFailed: 1},
		Windows: []site.WindowTimes{{Name: "night", Open: []site.Span{between(5, 25), between(90, 130)}},
			{Name: "often", Open: []site.Span{between(0, 2), between(4, 6)}, Unknown: between(8, 130), Why: "only the first 2 openings are drawn"}},
		Path: []site.TimedStretch{{Node: "web-3", What: "install-packages, restart", Span: between(34, 41)}, {Node: "web-4", What: "restart, after web-3", Span: between(90, 124)}},
		Rows: []site.ChartRow{
			{Node: "web-1", Role: "web", Rack: "r1", Canary: true, State: site.MachineDone, Began: after(0), Ended: after(9), Forecast: between(0, 8)},
			{Node: "web-9", Role: "web", Rack: "r1", State: site.MachineDone, Forecast: between(18, 26)},
			{Node: "web-2", Role: "web", Rack: "r1", State: site.MachineFailed, Began: after(19), Ended: after(27), Forecast: between(18, 26), Sentence: "the BMC answers 500 to a restart since 12:21"},
			{Node: "web-3", Role: "web", Rack: "r2", State: site.MachineRunning, Critical: true, Began: after(27), Expected: between(34, 41), Forecast: between(26, 34), Work: "install-packages, restart",
				Sentence: "install-packages: packages.nginx 1.26 → version 1.28", Since: after(29)},
			{Node: "web-10", Role: "web", Rack: "r2", State: site.MachineRunning, Began: after(30), Sentence: "the installer is running", Since: after(30)},
			{Node: "web-4", Role: "web", Rack: "r2", State: site.MachineWaiting, Critical: true, Expected: between(90, 124), Forecast: between(90, 124), Work: "restart", Window: "night",
				Sentence: "its window night opens at Sat 2026-11-21 13:30 UTC", Release: "the window opening at Sat 2026-11-21 13:30 UTC", Since: after(2)},
			{Node: "web-5", Role: "web", Rack: "r2", State: site.MachineWaiting, Expected: between(41, 49), Forecast: between(34, 42), WaitsFor: []string{"web-2", "web-3"}, Work: "restart",
				Sentence: "role web allows 2 of 10 nodes out of service (maxUnavailable 2)", Detail: "2 are: web-2, web-3", Release: "one of web-2, web-3 coming back into service", Since: after(20)},
			{Node: "web-6", Role: "web", Rack: "r2", State: site.MachineWaiting, Began: after(20), Expected: between(49, 55), Work: "restart", WaitsFor: []string{"web-3"}, Sentence: "its phase configure needs 1 of 1 nodes of role db", Since: after(24)},
			{Node: "web-7", State: site.MachineWaiting, Person: true, Sentence: "first contact: the machine was never seen as designed", Release: "`slipway approve web-7`", Since: after(1)},
			{Node: "web-8", State: site.MachineWaiting, Sentence: "not started yet"},
		},
	}
}

func ganttOf(c *site.RolloutChart, v present.GanttView) string {
	var b bytes.Buffer
	present.Gantt(&b, c, v)
	return b.String()
}

// wellFormed holds that a picture is XML in which nothing runs, and returns all of its texts.
func wellFormed(t *testing.T, picture string) string {
	t.Helper()
	d, texts := xml.NewDecoder(strings.NewReader(picture)), ""
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts
		}
		if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		switch x := token.(type) {
		case xml.CharData:
			texts += string(x)
		case xml.StartElement:
			switch x.Name.Local {
			case "svg", "g", "title", "desc", "text", "tspan", "rect", "line", "path", "a", "style":
			default:
				t.Errorf("the picture has an element %s", x.Name.Local)
			}
			for _, a := range x.Attr {
				if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
					t.Errorf("the picture has an attribute %s", a.Name.Local)
				}
			}
		}
	}
}

// The pictures of testdata/gantt are what people see; -update draws them again.
func TestGanttGolden(t *testing.T) {
	week := rolling()
	week.To = now.Add(6 * 24 * time.Hour)
	week.Halted, week.Ends = "canary web-1 has failed", time.Time{}
	over := rolling()
	over.Ended, over.Ends, over.Windows = after(40), time.Time{}, nil
	over.Rows = over.Rows[:3]
	for name, c := range map[string]struct {
		chart *site.RolloutChart
		view  present.GanttView
	}{
		"wide":   {rolling(), present.GanttView{StandAlone: true}},
		"narrow": {rolling(), present.GanttView{StandAlone: true, Width: 360}},
		"week":   {week, present.GanttView{StandAlone: true}},
		"over":   {over, present.GanttView{Link: func(node string) string { return "/nodes/" + node + "?a=1&b=2" }}},
	} {
		t.Run(name, func(t *testing.T) {
			got := ganttOf(c.chart, c.view)
			wellFormed(t, got)
			if !c.view.StandAlone && strings.Contains(got, "<style") {
				t.Error("a picture in a page has a style of its own")
			}
			file := filepath.Join("testdata", "gantt", name+".svg")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(got, string(want)); diff != "" {
				t.Errorf("(-got +want)\n%s", diff)
			}
		})
	}
}

// What others wrote is text, and never more than has room.
func TestGanttOfHostileTexts(t *testing.T) {
	for _, text := range []string{`<script>alert(1)</script>`, `"/><image href="x" onerror="y"/>`, "\x1b[2J\u202eevil", strings.Repeat("x", 100_000), "]]>&amp;", "\xff\xfe", ""} {
		c := rolling()
		for i := range c.Rows {
			c.Rows[i].Node, c.Rows[i].Sentence, c.Rows[i].Detail, c.Rows[i].Release, c.Rows[i].Work = text, text, text, text, text
			c.Rows[i].WaitsFor = []string{text, text}
		}
		c.Halted, c.ReadOnly, c.Revision.Subject, c.Windows[0].Name, c.Paused = text, text, text, text, &site.Hold{By: text, Reason: text}
		for _, wide := range []int{1, 360, 1280, 7680} {
			got := ganttOf(c, present.GanttView{Width: wide, StandAlone: true, Link: func(string) string { return "/" + text }})
			texts := wellFormed(t, got)
			if strings.ContainsAny(texts, "\x1b\u202e") || len(text) < 1000 && len(got) > 60_000 {
				t.Errorf("%d pixels, %.40q: %d bytes", wide, text, len(got))
			}
		}
		var b bytes.Buffer
		present.RolloutText(&b, c, present.RolloutView{Width: 80})
		if b.Len() > 30_000 {
			t.Errorf("%.40q: %d bytes of text", text, b.Len())
		}
	}
}

func TestRolloutTextOfNarrowTerminals(t *testing.T) {
	for width := range 30 {
		var b bytes.Buffer
		present.RolloutText(&b, rolling(), present.RolloutView{Width: width})
		if !strings.Contains(b.String(), "web-8") {
			t.Errorf("width %d: %s", width, b.String())
		}
	}
}

func TestGanttIsBounded(t *testing.T) {
	c := rolling()
	for i := range 10_000 {
		c.Rows = append(c.Rows, site.ChartRow{Node: fmt.Sprintf("n%d", i), State: site.MachineWaiting})
	}
	got := ganttOf(c, present.GanttView{})
	if texts := wellFormed(t, got); !strings.Contains(texts, "… 9510 more nodes") || len(got) > 1<<20 {
		t.Errorf("a picture of 10,010 rows has %d bytes", len(got))
	}
	if got := ganttOf(&site.RolloutChart{Now: now}, present.GanttView{}); got != "" {
		t.Errorf("before the first rollout: %s", got)
	}
}

// Whatever the times are, the scale can be read: some ticks, and nothing outside.
func TestGanttScale(t *testing.T) {
	for _, length := range []time.Duration{time.Minute, 7 * time.Minute, time.Hour, 26 * time.Hour, 12 * 24 * time.Hour, 400 * 24 * time.Hour, 30 * 365 * 24 * time.Hour} {
		for _, wide := range []int{360, 1280, 3840} {
			c := rolling()
			c.To, c.Rows, c.Windows, c.Soak = c.From.Add(length), nil, nil, site.Span{}
			got := ganttOf(c, present.GanttView{Width: wide})
			if ticks := strings.Count(got, `class="grid"`); ticks < 1 || ticks > wide/70 {
				t.Errorf("%s in %d pixels: %d ticks", length, wide, ticks)
			}
		}
	}
}

// A time on another day has its date, also where only the end of a span is on one.
func TestSpanOverMidnight(t *testing.T) {
	c := rolling()
	c.Rows = []site.ChartRow{{Node: "web-1", State: site.MachineRunning, Began: after(0), Expected: between(34, 13*60), Forecast: between(10, 20)}}
	texts := wellFormed(t, ganttOf(c, present.GanttView{}))
	for _, want := range []string{"expected Sat 2026-11-21 12:34 to Sun 2026-11-22 01:00 UTC", "was expected Sat 2026-11-21 12:10 to 12:20 UTC"} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q in %s", want, texts)
		}
	}
}

// A window of which it is not known when it is open does not look closed.
func TestWindowThatIsNotKnown(t *testing.T) {
	for _, width := range []int{360, 1280} {
		for _, from := range []int{0, 8, 129} {
			c := rolling()
			c.Rows, c.Windows = nil, []site.WindowTimes{{Name: "bad", Unknown: between(from, 130), Why: "it cannot be read: " + strings.Repeat("x", 100_000)}}
			got := ganttOf(c, present.GanttView{Width: width})
			if texts := wellFormed(t, got); !strings.Contains(texts, "? it cannot be read") || len(got) > 20_000 {
				t.Errorf("width %d, from %d: %d bytes: %.3000s", width, from, len(got), texts)
			}
		}
	}
}

// A delay of whole days is one, although the clock shows the same time.
func TestDelayOfWholeDays(t *testing.T) {
	for _, c := range []struct {
		expected, first int
		says            string
	}{
		{24*60 + 50, 50, "until 22 Nov 12:50, at first 12:50\n"},
		{50, 24*60 + 50, "until 12:50, at first 22 Nov 12:50\n"},
		{50, 50, "until 12:50\n"},
	} {
		chart := rolling()
		chart.To = after(48 * 60)
		chart.Rows = []site.ChartRow{{Node: "web-1", State: site.MachineRunning, Began: after(0), Expected: between(34, c.expected), Forecast: between(10, c.first)}}
		var b bytes.Buffer
		present.RolloutText(&b, chart, present.RolloutView{Width: 100})
		if !strings.Contains(b.String(), c.says) {
			t.Errorf("no %q in\n%s", c.says, b.String())
		}
	}
}

func TestRolloutTextGolden(t *testing.T) {
	for name, v := range map[string]present.RolloutView{"terminal": {Width: 110}, "pipe": {}, "few": {Width: 80, Rows: 3}} {
		var b bytes.Buffer
		present.RolloutText(&b, rolling(), v)
		file := filepath.Join("testdata", "gantt", name+".txt")
		if *update {
			if err := os.WriteFile(file, b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b.String(), string(want)); diff != "" {
			t.Errorf("%s (-got +want)\n%s", name, diff)
		}
	}
}
