package design

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/format"
	"cuelang.org/go/cue/parser"

	"github.com/slipway-gitops/slipway/engine/site"
)

// formatted is a worker's answer about the format of a file.
type formatted struct {
	Text     []byte         `json:"text,omitempty"`
	Findings []site.Finding `json:"findings,omitempty"`
}

// Format formats the text of a CUE file as `cue fmt` does. If the text is not
// CUE, it returns findings and no text. An error says nothing about the file.
func (e *Evaluator) Format(ctx context.Context, name string, text []byte) ([]byte, []site.Finding, error) {
	if most := e.Limits.withDefaults().FileBytes; int64(len(text)) > most {
		return nil, []site.Finding{tooLarge(name, most)}, nil
	}
	var f formatted
	broken, err := e.askText(ctx, request{ask: askFormat, pack: pack{files: map[string][]byte{name: text}}}, &f)
	if err != nil {
		return nil, nil, fmt.Errorf("format %s: %w", name, err)
	}
	if broken != nil {
		broken.File = name
		return nil, []site.Finding{*broken}, nil
	}
	return f.Text, f.Findings, nil
}

func tooLarge(name string, most int64) site.Finding {
	return site.Finding{
		Code: "file-too-large", Severity: site.SeverityError, File: name,
		Message: fmt.Sprintf("%s is larger than %d KiB", path.Base(name), most>>10),
		Why:     "The size of files is limited so that no commit can stop the daemon.", Fix: "Split it into several files.",
	}
}

// askText decodes a worker's JSON answer to a request. A finding says which
// limit the texts exceeded.
func (e *Evaluator) askText(ctx context.Context, r request, into any) (*site.Finding, error) {
	lim := e.Limits.withDefaults()
	text, err := e.asker(r.pack.site, lim)(ctx, r)
	if f := (fatal{}); errors.As(err, &f) {
		return &f.Finding, nil
	}
	if err != nil {
		return nil, err
	}
	return nil, json.Unmarshal(text, into)
}

// FormatHere formats a file in this process. Never call it on untrusted files.
func FormatHere(name string, text []byte) ([]byte, []site.Finding) {
	f, findings := parse(name, text)
	if f == nil {
		return nil, findings
	}
	out, err := format.Node(f)
	if err != nil {
		return nil, syntaxFindings(name, text, err)
	}
	return out, nil
}

// formatAll formats the one file of a pack.
func formatAll(p pack) formatted {
	var f formatted
	for name, text := range p.files {
		f.Text, f.Findings = FormatHere(name, text)
	}
	return f
}

// parse parses a file with its comments. It returns nil and findings when the
// text is not CUE.
func parse(name string, text []byte) (*ast.File, []site.Finding) {
	if found := depth(name, text); found != nil {
		return nil, found
	}
	f, err := parser.ParseFile(name, text, parser.ParseComments)
	if err != nil {
		return nil, syntaxFindings(name, text, err)
	}
	return f, nil
}

func syntaxFindings(name string, text []byte, err error) []site.Finding {
	l := newLoader(pack{files: map[string][]byte{name: text}})
	l.syntax(err, name)
	return l.findings.list
}
