package present_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-gitops/slipway/engine/present"
	"github.com/slipway-gitops/slipway/engine/site"
)

func lifeOf(t *site.NodeTimeline, width int) string {
	var b bytes.Buffer
	present.DrawNodeTimeline(&b, t, present.NodeTimelineView{Width: width, Link: func(seq uint64) string { return fmt.Sprintf("history?q=%d", seq) }})
	return b.String()
}

// Whatever is recorded of a node is text in its picture, and the picture is bounded.
func TestNodeTimelineIsBoundedText(t *testing.T) {
	const hostile = "\"><script>alert(1)</script>\x1b[31m\u202e"
	line := &site.NodeTimeline{Node: hostile, From: after(0), To: after(600)}
	for i := range 500 {
		line.States = append(line.States, site.StateSpan{Span: between(i, i+1), State: site.State(hostile), Text: hostile, Seq: uint64(i + 1)})
		line.Steps = append(line.Steps, site.StepSpan{Span: between(i, i+1), Text: hostile, Ended: site.EventKind(hostile)})
		line.Events = append(line.Events, site.Event{Seq: uint64(i + 1), When: after(i), Kind: site.EventKind(hostile), Text: strings.Repeat(hostile, 1000)})
	}
	for _, width := range []int{340, 1200} {
		picture := lifeOf(line, width)
		wellFormed(t, picture)
		if marks := strings.Count(picture, `<a class="mark`); len(picture) > 600_000 || marks > width/20 || strings.Contains(picture, "<script>") || strings.ContainsAny(picture, "\x1b\u202e") {
			t.Errorf("%d bytes, %d marks", len(picture), marks)
		}
	}
}

// A time of which nothing is known has no colour of a state, and a step whose end is not known says so.
func TestNodeTimelineDrawsWhatIsNotKnown(t *testing.T) {
	picture := lifeOf(&site.NodeTimeline{Node: "n1", From: after(0), To: after(60),
		States: []site.StateSpan{{Span: between(0, 30), Text: "no daemon acted for the site"}, {Span: between(30, 60), State: site.InSync, Text: "in-sync", Seq: 3}},
		Steps:  []site.StepSpan{{Span: between(10, 20), Text: "install", Open: true}, {Span: between(40, 60), Text: "restart", Open: true}},
	}, 1200)
	wellFormed(t, picture)
	for _, part := range []string{
		`<g class="gap"><title>not known, `, "no daemon acted for the site", `<g class="is in-sync"><a href="history?q=3">`, "✓ in-sync",
		"install: its end is not recorded", "restart: under way, as far as is recorded", "its state is not known for 30m of it",
	} {
		if !strings.Contains(picture, part) {
			t.Errorf("no %q in\n%s", part, picture)
		}
	}
	if says := present.NodeTimelineSays(&site.NodeTimeline{Node: "n1", From: after(0), To: after(60), States: []site.StateSpan{{Span: between(0, 60)}}}); !strings.HasSuffix(says, "not known at the end, 0 steps, 0 events; nothing is known of its states in this time") {
		t.Error(says)
	}
}
