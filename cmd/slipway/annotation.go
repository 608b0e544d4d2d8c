package main

import (
	"fmt"
	"path"
	"strings"

	"github.com/slipway-gitops/slipway/engine/site"
)

// printAnnotations writes findings as workflow commands of GitHub Actions, which
// shows them beside the lines of a pull request:
// https://docs.github.com/actions/reference/workflow-commands-for-github-actions
func printAnnotations(w *screen, from *sources, below string, findings []site.Finding) {
	for _, f := range findings {
		var place strings.Builder
		if f.File != "" {
			fmt.Fprintf(&place, "file=%s,", property(path.Join(below, f.File)))
		}
		if f.Line > 0 {
			fmt.Fprintf(&place, "line=%d,", f.Line)
		}
		if start, end := characters(from.line(f.File, f.Line), f.Col); start > 0 {
			fmt.Fprintf(&place, "col=%d,endColumn=%d,", start, end)
		}
		w.Printf("::%s %stitle=%s::%s\n", annotationLevel(f.Severity), place.String(), property(f.Code), data(story(f)))
	}
}

func annotationLevel(s site.Severity) string {
	if s == site.SeverityNote {
		return "notice"
	}
	return string(s)
}

// data escapes the message of a workflow command.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

// property escapes a property of a workflow command.
func property(s string) string {
	return strings.NewReplacer(":", "%3A", ",", "%2C").Replace(data(s))
}
