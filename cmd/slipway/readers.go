package main

import (
	"bufio"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/sealed"
)

// unproven are the recipients who were not readers of a file before, as far as that is
// proven.
func unproven(readers []string, to []sealed.Recipient) (added []sealed.Recipient) {
	for _, r := range to {
		if !slices.Contains(readers, r.Text) {
			added = append(added, r)
		}
	}
	return added
}

// newReaders are the recipients who can read a secret when it is set, and could not
// before. Nothing proves for whom a file of SOPS is encrypted; what is new had no
// readers.
func (c *checkout) newReaders(old openedSecret, to []sealed.Recipient) []sealed.Recipient {
	if c.flags.file != "" {
		if _, err := c.read(c.flags.file); err != nil {
			return nil
		}
		return to
	}
	if old.text == nil {
		return nil
	}
	return unproven(old.readers, to)
}

// admit asks a person before recipients can read what they could not: whoever can merge
// can add one to the list.
func (a *app) admit(c *checkout, what string, added []sealed.Recipient) error {
	if len(added) == 0 || c.flags.yes {
		return nil
	}
	a.err.Printf("%s: nothing proves that %s could read it before: %s\n", what, say.Count(len(added), "recipient"), labels(added))
	if !a.err.Terminal() || !isTerminal(os.Stdin) {
		return usage("others can read secrets after this: pass --yes if all recipients are right, as there is no terminal to ask at")
	}
	a.err.Printf("Encrypt for them? Type yes: ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.Join(errors.New("nothing was changed"), err)
	}
	return nil
}
