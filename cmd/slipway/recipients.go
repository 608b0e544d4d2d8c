package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/sealed"
)

func (a *app) recipientsCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "recipients [DIR]", Short: "list who can open the site's secrets", Args: atMost(1),
		Long: "Lists the recipients that secrets are encrypted for from now on: the file\n" +
			"secrets/recipients. What is encrypted already changes with `slipway secret rekey`.\n" + exitHelp,
		Example: "  slipway secret recipients\n  slipway secret recipients add age1… --name ops-laptop\n  slipway secret recipients remove ops-laptop",
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := openCheckout(a.err, folder(args), f)
			if err != nil {
				return err
			}
			all, err := c.listed()
			if err != nil {
				return err
			}
			return a.showRecipients(all)
		},
	}
	f.add(cmd)
	cmd.AddCommand(a.addRecipientCommand(), a.removeRecipientCommand())
	return cmd
}

func (a *app) showRecipients(all []sealed.Recipient) error {
	if a.output == "json" {
		return a.out.JSON(all)
	}
	t := newTable("name", "recipient")
	for _, r := range all {
		t.AppendRow([]any{r.Name, strings.TrimSpace(r.Text + " " + r.Fingerprint())})
	}
	return a.out.Printf("%s\n", t.Render())
}

func (a *app) addRecipientCommand() *cobra.Command {
	var f sealFlags
	var name string
	cmd := &cobra.Command{
		Use: "add RECIPIENT [DIR]", Short: "add a recipient of secrets", Args: nameAndFolder,
		Long: "Adds a recipient to secrets/recipients: age1…, age1pq1…, a public key of SSH\n" +
			"(ssh-ed25519 or ssh-rsa), or that of a plugin. Run `slipway secret rekey` afterwards.\n" + exitHelp,
		Example: "  slipway secret recipients add age1… --name ops-laptop",
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := openCheckout(a.err, folder(args[1:]), f)
			if err != nil {
				return err
			}
			return a.addRecipient(c, args[0], name)
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "the name of its owner, for people")
	f.add(cmd)
	return cmd
}

func (a *app) addRecipient(c *checkout, text, name string) error {
	r, err := sealed.ParseRecipient(text, sealed.Means{})
	if err != nil {
		return err
	}
	if strings.ContainsAny(name, "\r\n") {
		return usage("--name is one line")
	}
	old, err := c.read(sealed.RecipientsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		old = append(old, '\n')
	}
	if name == "" {
		name = r.Name // the comment of a key of SSH
	}
	if name != "" {
		old = append(old, "# "+name+"\n"...)
	}
	return a.writeRecipients(c, append(old, r.Text+"\n"...), "added "+sealed.Recipient{Text: r.Text, Name: name}.Label())
}

// writeRecipients writes the list of recipients, if it is one.
func (a *app) writeRecipients(c *checkout, text []byte, done string) error {
	all, err := sealed.ParseRecipients(text, sealed.Means{})
	if err != nil {
		return fmt.Errorf("%s was not changed: line %w", c.path(sealed.RecipientsFile), err)
	}
	if err := c.write(sealed.RecipientsFile, text); err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(all)
	}
	a.out.Printf("%s: %s\n", c.path(sealed.RecipientsFile), done)
	files, err := c.sealedFiles()
	if err == nil && len(files) > 0 {
		a.out.Printf("Run `slipway secret rekey` for what is encrypted already (%s).\n", say.Count(len(files), "file"))
	}
	return err
}

func (a *app) removeRecipientCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "remove RECIPIENT [DIR]", Short: "remove a recipient of secrets", Args: nameAndFolder,
		Long: "Removes a recipient, by its text or its name, from secrets/recipients. Run `slipway secret\n" +
			"rekey` afterwards. A removed recipient can still read the history of the repository:\n" +
			"replace the values that `slipway secret check` lists.\n" + exitHelp,
		Example: "  slipway secret recipients remove ops-laptop",
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := openCheckout(a.err, folder(args[1:]), f)
			if err != nil {
				return err
			}
			return a.removeRecipient(c, args[0])
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) removeRecipient(c *checkout, which string) error {
	all, err := c.listed()
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(slices.Clone(all), func(r sealed.Recipient) bool { return r.Text != which && r.Name != which })
	switch {
	case len(gone) == 0:
		return fmt.Errorf("%q is not a recipient: `slipway secret recipients` lists them", which)
	case len(gone) > 1:
		return fmt.Errorf("%d recipients are named %q: name the one that you mean by its text", len(gone), which)
	case len(all) == 1:
		return errors.New("this is the last recipient, without which nobody could open a secret: add another one first")
	}
	text, err := c.read(sealed.RecipientsFile)
	if err != nil {
		return err
	}
	kept := strings.Split(string(text), "\n")
	from, at := gone[0].Line-1, gone[0].Line
	if from > 0 && strings.HasPrefix(strings.TrimSpace(kept[from-1]), "#") {
		from--
	}
	kept = slices.Delete(kept, from, at)
	return a.writeRecipients(c, []byte(strings.Join(kept, "\n")), "removed "+gone[0].Label())
}
