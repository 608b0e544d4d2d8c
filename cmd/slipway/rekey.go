package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/sops"
)

func (a *app) rekeyCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "rekey [DIR]", Short: "encrypt all secrets for the present recipients", Args: atMost(1),
		Long: "Encrypts each secret that is encrypted for others than secrets/recipients lists for those\n" +
			"that it lists. The values stay. It needs an identity that opens all of them; if one\n" +
			"cannot be opened, no file is changed. It asks, or needs --yes, before new recipients can\n" +
			"read secrets. Commit what it changed.\n\n" +
			"A recipient that was removed can still read the history of the repository. Only another\n" +
			"value helps: `slipway secret check` lists those that a removed recipient could read.\n" + exitHelp,
		Example: "  slipway secret rekey",
		RunE:    func(_ *cobra.Command, args []string) error { return a.rekey(folder(args), f) },
	}
	f.add(cmd)
	f.addYes(cmd)
	return cmd
}

// rekeyed is what rekey did to a file.
type rekeyed struct {
	File    string   `json:"file"`
	Added   []string `json:"added,omitempty"`
	Removed []string `json:"removed,omitempty"`

	text []byte
	// unproven are the recipients of whom nothing proves that they could read it before.
	unproven []sealed.Recipient
}

func (a *app) rekey(dir string, f sealFlags) error {
	c, err := openCheckout(a.err, dir, f)
	if err != nil {
		return err
	}
	to, err := c.recipients()
	if err != nil {
		return err
	}
	files, err := c.sealedFiles()
	if err != nil {
		return err
	}
	var changed []rekeyed
	for _, file := range files {
		r, err := c.rekeyFile(file, to)
		if err != nil {
			return fmt.Errorf("%s: %w; no file was changed", c.path(file), err)
		}
		if len(r.Added)+len(r.Removed) > 0 {
			changed = append(changed, r)
		}
	}
	if err := a.admit(c, filepath.Join(c.root, c.folder), allUnproven(changed)); err != nil {
		return err
	}
	for i, r := range changed {
		if err := c.write(r.File, r.text); err != nil {
			return fmt.Errorf("%w; %d of %d files were written before: run it again", err, i, len(changed))
		}
	}
	return a.showRekeyed(c, len(files), changed, to)
}

func (a *app) showRekeyed(c *checkout, all int, changed []rekeyed, to []sealed.Recipient) error {
	if a.output == "json" {
		if changed == nil {
			changed = []rekeyed{}
		}
		return a.out.JSON(changed)
	}
	removed := false
	for _, r := range changed {
		a.out.Printf("%s%s%s\n", c.path(r.File), others(" + ", r.Added, to), others(" - ", r.Removed, nil))
		removed = removed || len(r.Removed) > 0
	}
	a.out.Printf("%d of %s encrypted again\n", len(changed), say.Count(all, "file"))
	if removed {
		a.out.Println("Removed recipients can still read the history: replace the values that `slipway secret check` lists.")
	}
	return nil
}

// allUnproven are those of all files, each once.
func allUnproven(changed []rekeyed) (all []sealed.Recipient) {
	for _, r := range changed {
		for _, one := range r.unproven {
			if !slices.ContainsFunc(all, func(known sealed.Recipient) bool { return known.Text == one.Text }) {
				all = append(all, one)
			}
		}
	}
	return all
}

// others are recipients, each with a sign before it.
func others(sign string, texts []string, listed []sealed.Recipient) string {
	var b strings.Builder
	for _, text := range texts {
		b.WriteString(sign + labelOf(text, listed))
	}
	return b.String()
}

// rekeyFile is a file encrypted for others; without text where it is for them already.
func (c *checkout) rekeyFile(file string, to []sealed.Recipient) (rekeyed, error) {
	text, err := c.read(file)
	if err != nil {
		return rekeyed{}, err
	}
	id, err := c.identity()
	if err != nil {
		return rekeyed{}, err
	}
	if design.IsSOPS(file) {
		f, err := sops.Parse(file, text)
		if err != nil {
			return rekeyed{}, err
		}
		r := difference(file, f.Recipients(), to)
		r.unproven = to
		if len(r.Added)+len(r.Removed) == 0 {
			return r, nil
		}
		if err := f.Rekey(id, to); err != nil {
			return r, err
		}
		r.text, err = f.Bytes()
		return r, err
	}
	h, plain, err := sealed.OpenFor(c.site, strings.TrimSuffix(file, sealed.Extension), text, id)
	if err != nil {
		return rekeyed{}, err
	}
	r := difference(file, h.Recipients, to)
	r.unproven = unproven(h.Recipients, to)
	if len(r.Added)+len(r.Removed) > 0 {
		r.text, err = sealed.Seal(h, plain, to)
	}
	return r, err
}

func difference(file string, was []string, to []sealed.Recipient) rekeyed {
	r := rekeyed{File: file}
	var now []string
	for _, one := range to {
		now = append(now, one.Text)
		if !slices.Contains(was, one.Text) {
			r.Added = append(r.Added, one.Text)
		}
	}
	for _, one := range was {
		if !slices.Contains(now, one) {
			r.Removed = append(r.Removed, one)
		}
	}
	return r
}
