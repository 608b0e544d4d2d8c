package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/cleartext"
	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sops"
)

func (a *app) checkSecretsCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "check [DIR]", Short: "say what is wrong with the encrypted secrets, and who can read which", Args: atMost(1),
		Long: "Says which credentials have no file, which files have no credential, who can read each\n" +
			"file, which are encrypted for others than secrets/recipients lists, which values a\n" +
			"recipient that was removed could read, and where a secret stands in clear text. With an\n" +
			"identity it opens each file to see that it fits its name and site. It changes nothing.\n" + exitHelp,
		Example: "  slipway secret check\n  slipway secret check --identity ~/secrets.key --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.checkSecrets(cmd.Context(), folder(args), f)
		},
	}
	f.add(cmd)
	return cmd
}

// secretsReport is what check says of a site's secrets.
type secretsReport struct {
	Site       string             `json:"site"`
	Opened     bool               `json:"opened"` // with an identity
	Recipients []sealed.Recipient `json:"recipients"`
	Secrets    []secretState      `json:"secrets"`
	// Findings are what is wrong, with the design's about credentials.
	Findings []site.Finding `json:"findings"`
	// Readable are the values that removed recipients could read.
	Readable []readable `json:"readable,omitempty"`
	// History says why Git's history was not looked at; empty where it was.
	History string `json:"history,omitempty"`
}

// secretState is an encrypted file.
type secretState struct {
	File        string   `json:"file"`
	Credentials []string `json:"credentials,omitempty"`
	// Readers are those that can open it, by label, as far as they are known, and
	// Count how many there are.
	Readers []string  `json:"readers,omitempty"`
	Count   int       `json:"count"`
	Set     time.Time `json:"set,omitzero"`
	// Stale says that it is not encrypted for just the present recipients.
	Stale bool `json:"stale,omitempty"`
	// Unproven says that nothing proves who its readers are: the file names them, and
	// whoever can merge can change that.
	Unproven bool `json:"unproven,omitempty"`
}

func (a *app) checkSecrets(ctx context.Context, dir string, f sealFlags) error {
	c, err := openCheckout(a.err, dir, f)
	if err != nil {
		return err
	}
	_, r, err := evaluateDir(ctx, c.root, c.site)
	if err != nil {
		return err
	}
	report := secretsReport{Site: c.site, Recipients: []sealed.Recipient{}, Secrets: []secretState{}, Findings: []site.Finding{}}
	for _, f := range r.Findings {
		if slices.Contains(aboutSecrets, f.Code) {
			report.Findings = append(report.Findings, f)
		}
	}
	listed, err := c.listed()
	if err == nil {
		report.Recipients = listed
	}
	id, noIdentity := c.identity()
	report.Opened = noIdentity == nil
	files, err := c.sealedFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		state, finding := c.stateOf(file, id, listed, r.Site)
		report.Secrets = append(report.Secrets, state)
		if finding != nil && !slices.ContainsFunc(report.Findings, func(f site.Finding) bool { return f.File == finding.File && f.Severity == site.SeverityError }) {
			report.Findings = append(report.Findings, *finding)
		}
	}
	report.Findings = append(report.Findings, clearInTree(c)...)
	report.Readable, err = c.readableByRemoved(ctx, listed, report.Secrets)
	if err != nil {
		report.History = err.Error()
	}
	site.SortFindings(report.Findings)
	return a.showSecrets(c, report, r.Site == nil, noIdentity)
}

// aboutSecrets are the codes of the design's findings about secrets.
var aboutSecrets = []string{"clear-secret", "credential-source", "secret-without-file", "secret-not-encrypted", "secret-damaged", "unused-secret"}

// stateOf looks at an encrypted file.
func (c *checkout) stateOf(file string, id sealed.Identity, listed []sealed.Recipient, s *site.Site) (secretState, *site.Finding) {
	state := secretState{File: filepath.ToSlash(filepath.Join(c.folder, file))}
	if s != nil {
		for name, credential := range s.Credentials {
			if credential.SealedFile(name) == file {
				state.Credentials = append(state.Credentials, name)
			}
		}
		slices.Sort(state.Credentials)
	}
	wrong := func(err error) (secretState, *site.Finding) {
		return state, &site.Finding{Code: "secret-damaged", Severity: site.SeverityError, File: state.File, Line: 1, Col: 1,
			Message: fmt.Sprintf("%s cannot be used: %v", state.File, err),
			Why:     "Slipway could not log in with what it holds, and would find that out at the machines.",
			Fix:     "Restore the file from Git, or do what the message says."}
	}
	text, err := c.read(file)
	if err != nil {
		return wrong(err)
	}
	var readers []string
	if design.IsSOPS(file) {
		f, err := sops.Parse(file, text)
		if err != nil {
			return wrong(err)
		}
		readers = f.Recipients()
		state.Count, state.Unproven = len(readers), true
		if !id.IsZero() {
			if _, err := f.Open(id); err != nil {
				return wrong(err)
			}
		}
	} else {
		kinds, err := sealed.Stanzas(text)
		if err != nil {
			return wrong(err)
		}
		state.Count, state.Stale = len(kinds), len(kinds) != len(listed)
		if !id.IsZero() {
			h, _, err := sealed.OpenFor(c.site, strings.TrimSuffix(file, sealed.Extension), text, id)
			if err != nil {
				return wrong(err)
			}
			readers, state.Set = h.Recipients, h.Set
		}
	}
	if readers != nil {
		d := difference(file, readers, listed)
		state.Stale = len(d.Added)+len(d.Removed) > 0
		for _, text := range readers {
			state.Readers = append(state.Readers, labelOf(text, listed))
		}
	}
	return state, nil
}

// labelOf is how people know a recipient.
func labelOf(text string, listed []sealed.Recipient) string {
	for _, r := range listed {
		if r.Text == text {
			return r.Label()
		}
	}
	return sealed.Recipient{Text: text}.Label()
}

// mostScanned is the largest file that is searched for secrets, in bytes.
const mostScanned = 1 << 20

// clearInTree finds secrets in clear text in the files of the repository. Those of
// the design and in the folder of secrets are found when the design is evaluated.
func clearInTree(c *checkout) []site.Finding {
	var found []site.Finding
	tree := c.tree.FS()
	_ = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // what cannot be read is in no commit
		case d.IsDir():
			if d.Name() == ".git" || name == filepath.ToSlash(c.folder) {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular() || strings.HasSuffix(name, sealed.Extension) || design.IsSOPS(name):
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > mostScanned {
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil || len(text) > mostScanned || bytes.ContainsRune(text, 0) {
			return nil
		}
		look := cleartext.FindSure // words such as "password: x" are common in designs and documents
		if slices.Contains([]string{".yaml", ".yml", ".json", ".env", ".ini", ".conf", ".cfg", ".toml"}, path.Ext(name)) {
			look = cleartext.Find
		}
		for _, f := range look(string(text)) {
			found = append(found, site.Finding{
				Code: "secret-not-encrypted", Severity: site.SeverityError, File: name, Line: f.Line, Col: 1,
				Message: fmt.Sprintf("%s holds what looks like %s", name, f.What),
				Why:     "Everybody who can read the repository can use it for as long as it is valid: whatever was pushed once stays in the history.",
				Fix:     "Replace it wherever it is valid, remove it here, and set the new one with `slipway secret set NAME`.",
			})
		}
		return nil
	})
	return found
}

func (a *app) showSecrets(c *checkout, r secretsReport, broken bool, noIdentity error) error {
	failed := site.HasErrors(r.Findings)
	if a.output == "json" {
		if err := a.out.JSON(r); err != nil {
			return err
		}
	} else {
		a.printSecrets(c, r, broken, noIdentity)
	}
	if failed {
		return errFindings
	}
	return nil
}

func (a *app) printSecrets(c *checkout, r secretsReport, broken bool, noIdentity error) {
	printFindings(a.out, os.DirFS(c.root), r.Findings)
	if len(r.Secrets) > 0 {
		t := newTable("file", "credential", "set", "readers")
		for _, s := range r.Secrets {
			readers := strings.Join(s.Readers, ", ")
			if readers == "" {
				readers = say.Count(s.Count, "recipient")
			}
			if s.Unproven {
				readers += "; as the file says, which nothing proves"
			}
			if s.Stale {
				readers += "; not the present ones: run `slipway secret rekey`"
			}
			set := ""
			if !s.Set.IsZero() {
				set = s.Set.Format(time.DateOnly)
			}
			t.AppendRow([]any{s.File, strings.Join(s.Credentials, ", "), set, readers})
		}
		a.out.Printf("%s\n", t.Render())
	}
	for _, v := range r.Readable {
		when := "is removed in this checkout"
		if v.Commit != "" {
			when = fmt.Sprintf("was removed in %s (%s)", v.Commit[:min(12, len(v.Commit))], v.Removed.Format(time.DateOnly))
		}
		a.out.Printf("%s %s, and could read values that were not set again since: %s. Set other values, wherever they are valid\n", v.Recipient, when, strings.Join(v.Files, ", "))
	}
	if r.History != "" {
		a.out.Printf("which values removed recipients could read is not known: %s\n", r.History)
	}
	if noIdentity != nil && len(r.Secrets) > 0 {
		a.out.Printf("The files were not opened, so who can read them and when they were set is known in part: %v\n", noIdentity)
	}
	if broken {
		a.out.Println("The design has errors, so which credentials name a file is not known: see `slipway check`")
	}
	a.out.Printf("site %s: %s, %s\n", r.Site, say.Count(len(r.Secrets), "encrypted file"), say.Count(len(r.Recipients), "recipient"))
}
