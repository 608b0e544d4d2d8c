package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-gitops/slipway/engine/say"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/sops"
)

func (a *app) secretCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "secret", Short: "keep secrets in the repository, encrypted", Args: knownCommand,
		Long: "Secrets of a design may be in its repository, encrypted with age for the recipients that\n" +
			"secrets/recipients lists. These commands work on a checkout and need no daemon; what\n" +
			"they change is for you to commit. See docs/secrets.md.\n" + exitHelp,
		Example: "  slipway secret identity\n  slipway secret recipients add age1… --name bootstrap-host\n" +
			"  slipway secret set bmc --hosts 192.0.2.0/24 --use redfish --username admin\n  slipway secret check",
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.setSecretCommand(), a.editSecretCommand(), a.showSecretCommand(), a.recipientsCommand(), a.rekeyCommand(),
		a.checkSecretsCommand(), a.identityCommand(), a.tpmCommand(), a.pkcs11Command(), a.deriveCommand())
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { // in the place of that of all commands
		a.hideMemory()
		return a.settleOutput(cmd)
	}
	return cmd
}

// nameAndFolder asks for a name and perhaps a folder.
func nameAndFolder(cmd *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return usage("%s takes a name and, if needed, a folder: slipway secret %s", cmd.Name(), cmd.Use)
	}
	return nil
}

// headerFlags are the header lines of a credential.
type headerFlags struct{ hosts, use, ports, username string }

// over puts what was given over a header that there is already.
func (h headerFlags) over(old string) string {
	var b strings.Builder
	was := map[string]string{}
	for line := range strings.Lines(old) {
		key, value, _ := strings.Cut(line, ":")
		was[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	for _, line := range []struct{ key, value string }{{"hosts", h.hosts}, {"use", h.use}, {"ports", h.ports}, {"username", h.username}} {
		if line.value == "" {
			line.value = was[line.key]
		}
		if line.value != "" {
			fmt.Fprintf(&b, "%s: %s\n", line.key, line.value)
		}
	}
	return b.String()
}

func (a *app) setSecretCommand() *cobra.Command {
	var f sealFlags
	var h headerFlags
	cmd := &cobra.Command{
		Use: "set NAME [DIR]", Short: "encrypt the value of a credential for the site's recipients", Args: nameAndFolder,
		Long: "Reads the value from standard input, or asks for it without showing it, and writes\n" +
			"secrets/NAME.age. The hosts, uses, ports and user name are encrypted with it. A new\n" +
			"secret needs --hosts and --use. A new value of an existing secret keeps them unless a\n" +
			"flag changes them; that needs an identity that opens the secret. With --file and --key\n" +
			"the value is set in a file of SOPS. It asks, or needs --yes, before new recipients can\n" +
			"read the secret.\n" + exitHelp,
		Example: "  slipway secret set bmc --hosts 192.0.2.0/24 --use redfish --username admin\n" +
			"  slipway secret set os --hosts 10.1.0.0/24 --use ssh --username root < id_ed25519\n" +
			"  slipway secret set bmc --file site.sops.yaml --key bmc",
		RunE: func(_ *cobra.Command, args []string) error { return a.setSecret(args[0], folder(args[1:]), f, h) },
	}
	flags := cmd.Flags()
	flags.StringVar(&h.hosts, "hosts", "", "addresses, networks and names that it may be sent to, with commas")
	flags.StringVar(&h.use, "use", "", "what sends it, such as redfish or ssh, with commas")
	flags.StringVar(&h.ports, "ports", "", "ports that it may be sent to, where they are not the usual ones")
	flags.StringVar(&h.username, "username", "", "the account's name")
	f.add(cmd)
	f.addSOPS(cmd)
	f.addYes(cmd)
	return cmd
}

func (a *app) setSecret(name, dir string, f sealFlags, h headerFlags) error {
	if err := checkName(name); err != nil {
		return err
	}
	c, err := openCheckout(a.err, dir, f)
	if err != nil {
		return err
	}
	to, err := c.recipients()
	if err != nil {
		return err
	}
	old, noOld := c.open(name)
	head := h.over("")
	if h.hosts == "" || h.use == "" {
		switch {
		case noOld != nil && !c.exists(name):
			return usage("a new secret needs --hosts and --use: where it may be sent, and by what")
		case noOld != nil:
			return fmt.Errorf("keep the hosts and uses of the secret: %w; or give --hosts and --use", noOld)
		}
		was, _, _ := strings.Cut(string(old.text), "\n\n")
		head = h.over(was)
		a.err.Printf("%s: the secret keeps the hosts and uses that its file has. Anyone who can merge could have replaced that file: continue only if these are right\n%s\n", c.path(c.fileOf(name)), head)
	}
	if err := a.admit(c, c.path(c.fileOf(name)), c.newReaders(old, to)); err != nil {
		return err
	}
	value, err := readValue(a.err, name)
	if err != nil {
		return err
	}
	return a.seal(c, name, old, []byte(head+"\n"+string(value)), to)
}

func (c *checkout) exists(name string) bool {
	text, err := c.read(c.fileOf(name))
	if err == nil && c.flags.file != "" {
		return bytes.Contains(text, []byte(c.flags.key))
	}
	return !errors.Is(err, fs.ErrNotExist)
}

// mostValue bounds a secret that is read, in bytes.
const mostValue = 64 << 10

// readValue reads a secret from standard input, or asks for it.
func readValue(w *screen, name string) ([]byte, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		text, err := io.ReadAll(io.LimitReader(os.Stdin, mostValue+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("read the secret: %w", err)
		case len(text) > mostValue:
			return nil, fmt.Errorf("the secret has more than %d KiB, which no password or key needs", mostValue>>10)
		}
		return bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")), nil
	}
	first, err := ask(w, name+": ")
	if err != nil {
		return nil, err
	}
	again, err := ask(w, "once more: ")
	if err == nil && !bytes.Equal(first, again) {
		err = errors.New("the two are not the same: nothing was changed")
	}
	return first, err
}

// seal encrypts a credential in the place of an old one, if there was one that could be
// opened, and writes its file.
func (a *app) seal(c *checkout, name string, old openedSecret, text []byte, to []sealed.Recipient) error {
	if err := secret.CheckText(text); err != nil {
		return fmt.Errorf("the secret was not changed: %w", err)
	}
	w := sealing{Name: name, File: c.path(c.fileOf(name)), Key: c.flags.key, Recipients: to}
	var file []byte
	var err error
	if c.flags.file != "" {
		file, err = c.putSOPS(text, &w)
	} else {
		file, err = sealed.Seal(c.dated(name, old, text), text, to)
	}
	if err != nil {
		return err
	}
	if err := c.write(c.fileOf(name), file); err != nil {
		return err
	}
	return a.showWritten(c, w)
}

// dated is the header of a secret that is set now. The value has the time at which it
// was another one last, so that people see who could read it since.
func (c *checkout) dated(name string, old openedSecret, text []byte) sealed.Header {
	now := newer(old.header.Changed)
	h := sealed.Header{Site: c.site, Name: name, Set: now, Changed: now}
	_, was, _ := bytes.Cut(old.text, []byte("\n\n"))
	if _, is, _ := bytes.Cut(text, []byte("\n\n")); old.text != nil && bytes.Equal(was, is) {
		h.Set = old.header.Set
	}
	return h
}

// newer is the time now, or the one after another where that is later by the clock of
// whoever set it: the daemon refuses what is older than what it has opened.
func newer(other time.Time) time.Time {
	now := time.Now().Truncate(time.Second)
	if other.Before(now) || other.After(now.Add(secret.Ahead)) {
		return now
	}
	return other.Add(time.Second)
}

// sealing is what was encrypted.
type sealing struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Key is the path of the secret in a file of SOPS, and Others how many other values
	// the file has, which are encrypted again with it.
	Key        string             `json:"key,omitempty"`
	Others     int                `json:"others,omitempty"`
	Added      []string           `json:"added,omitempty"`
	Removed    []string           `json:"removed,omitempty"`
	Recipients []sealed.Recipient `json:"recipients"`
}

func (a *app) showWritten(c *checkout, w sealing) error {
	if a.output == "json" {
		return a.out.JSON(w)
	}
	what := ""
	if w.Key != "" {
		what = w.Key + " was set, "
	}
	a.out.Printf("%s: %sencrypted for %s: %s\n", w.File, what, say.Count(len(w.Recipients), "recipient"), labels(w.Recipients))
	if w.Others > 0 {
		a.out.Printf("%s of the file encrypted again with a new key%s%s\n", say.Count(w.Others, "other value"),
			others(" + ", w.Added, w.Recipients), others(" - ", w.Removed, nil))
	}
	if w.Key == "" {
		a.out.Printf("Commit it. In the design: credentials: %q: from: \"sealed\"\n", w.Name)
	} else {
		a.out.Printf("Commit it. In the design: credentials: %q: {from: \"sops\", file: %q, key: %q}\n", w.Name, c.flags.file, w.Key)
	}
	return nil
}

func labels(to []sealed.Recipient) string {
	var all []string
	for _, r := range to {
		all = append(all, r.Label())
	}
	return strings.Join(all, ", ")
}

// putSOPS is the file of SOPS with a credential.
func (c *checkout) putSOPS(text []byte, w *sealing) ([]byte, error) {
	path := c.path(c.flags.file)
	old, err := c.read(c.flags.file)
	var content *sops.Content
	var changed time.Time
	if errors.Is(err, fs.ErrNotExist) {
		content, err = sops.New(c.flags.file, w.Recipients)
	} else if err == nil {
		var was *sops.File
		if was, content, err = c.openSOPS(path, old); err == nil {
			changed = was.Changed()
			d := difference(c.flags.file, was.Recipients(), w.Recipients)
			w.Added, w.Removed = d.Added, d.Removed
		}
	}
	if err != nil {
		return nil, err
	}
	if err := content.Renew(w.Recipients); err != nil { // a recipient who was removed knows the key of before
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := content.PutCredential(c.flags.key, c.site, text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	w.Others = content.Others(c.flags.key)
	f, err := content.File(newer(changed))
	if err != nil {
		return nil, err
	}
	return f.Bytes()
}
