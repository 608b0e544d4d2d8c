package main

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/slipway-gitops/slipway/engine/design/rule"
	"github.com/slipway-gitops/slipway/engine/site"
)

// What is written of the Static Analysis Results Interchange Format, version
// 2.1.0 (OASIS, 2020). The comments name its sections.
type (
	sarifLog struct { // 3.13
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct { // 3.14
		Tool       sarifTool            `json:"tool"`
		URIBases   map[string]sarifBase `json:"originalUriBaseIds"`
		ColumnKind string               `json:"columnKind"`
		Results    []sarifResult        `json:"results"`
		Encoding   string               `json:"defaultEncoding"`
	}
	sarifTool struct { // 3.18
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct { // 3.19
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifBase struct { // 3.14.14
		Description sarifText `json:"description"`
	}
	sarifRule struct { // 3.49
		ID            string       `json:"id"`
		Short         sarifText    `json:"shortDescription"`
		Full          sarifText    `json:"fullDescription"`
		Help          sarifText    `json:"help"`
		HelpURI       string       `json:"helpUri"`
		Configuration sarifDefault `json:"defaultConfiguration"`
		Properties    sarifTags    `json:"properties"`
	}
	sarifDefault struct { // 3.50
		Level string `json:"level"`
	}
	sarifTags struct { // 3.8
		Tags []string `json:"tags"`
	}
	sarifText struct { // 3.11, 3.12
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifResult struct { // 3.27
		RuleID       string             `json:"ruleId"`
		RuleIndex    *int               `json:"ruleIndex,omitempty"`
		Level        string             `json:"level"`
		Message      sarifText          `json:"message"`
		Locations    []sarifLocation    `json:"locations"`
		Related      []sarifLocation    `json:"relatedLocations,omitempty"`
		Fingerprints map[string]string  `json:"partialFingerprints"`
		Suppressions []sarifSuppression `json:"suppressions,omitempty"`
	}
	sarifSuppression struct { // 3.35
		Kind string `json:"kind"`
	}
	sarifLocation struct { // 3.28
		ID       int            `json:"id,omitempty"`
		Message  *sarifText     `json:"message,omitempty"`
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct { // 3.29
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct { // 3.4
		URI  string `json:"uri"`
		Base string `json:"uriBaseId"`
	}
	sarifRegion struct { // 3.30
		StartLine   int        `json:"startLine"`
		StartColumn int        `json:"startColumn,omitempty"`
		EndColumn   int        `json:"endColumn,omitempty"`
		Snippet     *sarifText `json:"snippet,omitempty"`
	}
	sarifLogical struct { // 3.33
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

const (
	sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	// sarifRoot names the root of the repository; consumers know where that is.
	sarifRoot = "%SRCROOT%"
	homePage  = "https://github.com/slipway-gitops/slipway"
)

// sarifWriter makes results of findings.
type sarifWriter struct {
	from *sources
	// below is where the design is in its repository.
	below string
	index map[string]int
	// seen counts the fingerprints, so that two alike differ.
	seen map[string]int
}

// printSARIF writes findings, and those that the site silences, as one SARIF
// log.
func printSARIF(w *screen, from *sources, below string, findings, silenced []site.Finding) error {
	s := sarifWriter{from: from, below: below, index: map[string]int{}, seen: map[string]int{}}
	run := sarifRun{
		URIBases:   map[string]sarifBase{sarifRoot: {sarifText{Text: "The root of the repository."}}},
		ColumnKind: "unicodeCodePoints",
		Encoding:   "utf-8",
		Results:    []sarifResult{},
	}
	run.Tool.Driver = sarifDriver{"slipway", thisVersion().Version, homePage, s.rules()}
	for _, f := range findings {
		run.Results = append(run.Results, s.result(f))
	}
	for _, f := range silenced {
		r := s.result(f)
		r.Suppressions = []sarifSuppression{{"external"}}
		run.Results = append(run.Results, r)
	}
	return w.JSON(sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
}

// rules describes every rule.
func (s *sarifWriter) rules() []sarifRule {
	var all []sarifRule
	for _, a := range rule.Areas() {
		for _, r := range a.Rules {
			s.index[r.Code] = len(all)
			all = append(all, sarifRule{
				ID:    r.Code,
				Short: sarifText{Text: r.What}, Full: sarifText{Text: r.What + " " + r.Why},
				Help:          sarifText{Text: rulePage(r), Markdown: ruleMarkdown(r)},
				HelpURI:       homePage + "/blob/main/docs/rules.md#" + r.Code,
				Configuration: sarifDefault{sarifLevel(r.Severity)},
				Properties:    sarifTags{[]string{a.Name}},
			})
		}
	}
	return all
}

// sarifLevel is a severity in SARIF's words, 3.27.10.
func sarifLevel(s site.Severity) string {
	switch s {
	case site.SeverityError, site.SeverityWarning:
		return string(s)
	}
	return "note"
}

func (s *sarifWriter) result(f site.Finding) sarifResult {
	r := sarifResult{
		RuleID: f.Code, Level: sarifLevel(f.Severity), Message: sarifText{Text: literal(story(f))},
		Locations:    []sarifLocation{s.location(spot{f.File, f.Line, f.Col})},
		Fingerprints: map[string]string{"primaryLocationLineHash": s.fingerprint(f)},
	}
	if i, ok := s.index[f.Code]; ok {
		r.RuleIndex = &i
	}
	if name := fullPath(f); name != "" {
		r.Locations[0].Logical = []sarifLogical{{name, "member"}}
	}
	for i, place := range f.Related {
		l := s.location(spotOf(place))
		l.ID, l.Message = i+1, &sarifText{Text: "takes part"}
		r.Related = append(r.Related, l)
	}
	if isSecret(f) {
		withoutSnippets(r.Locations)
		withoutSnippets(r.Related)
	}
	return r
}

// withoutSnippets keeps the text at some locations from being shown.
func withoutSnippets(at []sarifLocation) {
	for _, l := range at {
		if l.Physical.Region != nil {
			l.Physical.Region.Snippet = nil
		}
	}
}

// location is a place in the repository. What is about the whole design is
// shown at its module file: code scanning refuses results without a place.
func (s *sarifWriter) location(at spot) sarifLocation {
	if at.file == "" {
		at.file = "cue.mod/module.cue"
	}
	uri := url.URL{Path: path.Join(s.below, at.file)}
	l := sarifLocation{}
	l.Physical.Artifact = sarifArtifact{uri.EscapedPath(), sarifRoot}
	if at.line > 0 {
		l.Physical.Region = s.region(at)
	}
	return l
}

// region is where something is in a file, in characters from 1; its end is the
// character behind.
func (s *sarifWriter) region(at spot) *sarifRegion {
	line := s.from.line(at.file, at.line)
	start, end := characters(line, at.col)
	r := &sarifRegion{StartLine: at.line, StartColumn: start, EndColumn: end}
	if len(line) > 0 && len(line) <= maxExcerpt*4 {
		r.Snippet = &sarifText{Text: strings.ToValidUTF8(string(line), "\uFFFD")}
	}
	return r
}

// characters turns a column in bytes into the first and the last column, in
// characters, of what begins there; 0 where it is not known.
func characters(line []byte, col int) (start, end int) {
	if col < 1 || col > len(line) {
		return 0, 0
	}
	start = utf8.RuneCount(line[:col-1]) + 1
	return start, start + max(1, extent([]rune(string(line[col-1:]))))
}

// fingerprint tells a result from others, wherever its line moves: by its rule,
// file, value and the text of its line, and among equal ones by their number.
func (s *sarifWriter) fingerprint(f site.Finding) string {
	value := fullPath(f)
	if f.More > 0 {
		value = f.Path // which node is the first of many may change
	}
	line := ""
	if !isSecret(f) { // a digest of a short line tells the line
		line = strings.TrimSpace(string(s.from.line(f.File, f.Line)))
	}
	h := sha256.New()
	for _, part := range []string{f.Code, path.Join(s.below, f.File), value, line} {
		fmt.Fprintf(h, "%q\n", part)
	}
	sum := fmt.Sprintf("%x", h.Sum(nil)[:8])
	s.seen[sum]++
	return fmt.Sprintf("%s:%d", sum, s.seen[sum])
}

// story is all that is to be said of a finding.
func story(f site.Finding) string {
	var lines []string
	for _, line := range []string{f.Message, f.Others(), f.Why, f.Fix} {
		if line != "" {
			lines = append(lines, site.Printable(line))
		}
	}
	return strings.Join(lines, "\n")
}

// literal keeps braces from being taken for placeholders, 3.11.5.
func literal(s string) string { return strings.NewReplacer("{", "{{", "}", "}}").Replace(s) }

// fullPath is the path of a finding's value in the whole design.
func fullPath(f site.Finding) string {
	if f.Node == "" || strings.HasPrefix(f.Path, "nodes.") {
		return f.Path
	}
	return strings.TrimSuffix("nodes."+f.Node+"."+f.Path, ".")
}
