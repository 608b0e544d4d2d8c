package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
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
		a.checkSecretsCommand(), a.identityCommand(), a.deriveCommand())
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { // in the place of that of all commands
		a.hideMemory()
		return a.settleOutput(cmd)
	}
	return cmd
}

// nameAndFolder asks for a name and perhaps a folder.
func nameAndFolder(cmd *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return usage("%s takes a name and perhaps a folder: slipway secret %s", cmd.Name(), cmd.Use)
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
			"secrets/NAME.age. The hosts, uses, ports and user name stand in the same encryption: a\n" +
			"new secret needs --hosts and --use; for another value of one that is there, they stay as\n" +
			"they are unless a flag says otherwise, which needs an identity that opens it. With --file\n" +
			"and --key the value is set in a file of SOPS. It asks, or needs --yes, before recipients\n" +
			"can read the secret who could not read the one before.\n" + exitHelp,
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
		a.err.Printf("%s: the secret keeps where it may be sent, as its file says. Whoever can merge could have replaced the file: go on only if this is right\n%s\n", c.path(c.fileOf(name)), head)
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

func (c *checkout) openSOPS(path string, text []byte) (*sops.File, *sops.Content, error) {
	f, err := sops.Parse(path, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	id, err := c.identity()
	if err != nil {
		return nil, nil, err
	}
	content, err := f.Open(id)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, content, nil
}

func (a *app) showSecretCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "show NAME [DIR]", Short: "decrypt a secret, to a terminal", Args: nameAndFolder,
		Long: "Shows a secret with the hosts and uses that it is for. It is written to a terminal alone,\n" +
			"so that it gets into no file or log by mistake; --output json writes it anywhere.\n" + exitHelp,
		Example: "  slipway secret show bmc\n  slipway secret show bmc --output json",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkName(args[0]); err != nil {
				return err
			}
			if a.output != "json" && !a.out.Terminal() {
				return errors.New("a secret is shown on a terminal alone: with --output json it is written anywhere")
			}
			c, err := openCheckout(a.err, folder(args[1:]), f)
			if err != nil {
				return err
			}
			s, err := c.open(args[0])
			if err != nil {
				return err
			}
			return a.showSecret(s)
		},
	}
	f.add(cmd)
	f.addSOPS(cmd)
	return cmd
}

func (a *app) showSecret(s openedSecret) error {
	if a.output != "json" {
		return a.out.Lay(string(s.text) + "\n")
	}
	head, value, _ := strings.Cut(string(s.text), "\n\n")
	header := map[string]string{}
	for line := range strings.Lines(head) {
		key, value, _ := strings.Cut(line, ":")
		header[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return a.out.JSON(struct {
		Site       string            `json:"site"`
		Name       string            `json:"name"`
		Set        time.Time         `json:"set,omitzero"`
		Changed    time.Time         `json:"changed,omitzero"`
		Recipients []string          `json:"recipients,omitempty"`
		Header     map[string]string `json:"header"`
		Secret     string            `json:"secret"`
	}{s.header.Site, s.header.Name, s.header.Set, s.header.Changed, s.header.Recipients, header, value})
}

func (a *app) editSecretCommand() *cobra.Command {
	var f sealFlags
	cmd := &cobra.Command{
		Use: "edit NAME [DIR]", Short: "edit a secret with its header in $EDITOR", Args: nameAndFolder,
		Long: "Decrypts a secret into a file in memory (tmpfs) that only you can read, runs $VISUAL or\n" +
			"$EDITOR on it, encrypts what you saved for the site's recipients, and removes the file. A\n" +
			"text that is not a credential changes nothing.\n" + exitHelp,
		Example: "  slipway secret edit bmc",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.editSecret(cmd.Context(), args[0], folder(args[1:]), f)
		},
	}
	f.add(cmd)
	f.addSOPS(cmd)
	f.addYes(cmd)
	return cmd
}

func (a *app) editSecret(ctx context.Context, name, dir string, f sealFlags) error {
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
	s, err := c.open(name)
	if err != nil {
		return err
	}
	if err := a.admit(c, c.path(c.fileOf(name)), c.newReaders(s, to)); err != nil {
		return err
	}
	text, err := edited(ctx, name, append(slices.Clone(s.text), '\n'))
	if err != nil {
		return err
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	if bytes.Equal(text, s.text) {
		a.err.Println("slipway: nothing was changed")
		return nil
	}
	return a.seal(c, name, s, text, to)
}

// inMemory is a new folder in memory that only this user can read.
func inMemory() (string, error) {
	for _, folder := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm", "/run"} {
		var fs unix.Statfs_t
		if folder == "" || unix.Statfs(folder, &fs) != nil || fs.Type != unix.TMPFS_MAGIC && fs.Type != unix.RAMFS_MAGIC {
			continue
		}
		if dir, err := os.MkdirTemp(folder, "slipway-secret-*"); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no folder in memory (tmpfs) can be written, and a secret in clear text is not put on a disk: set XDG_RUNTIME_DIR to one, or use `slipway secret set`")
}

// edited is a text after a person edited it.
func edited(ctx context.Context, name string, text []byte) (after []byte, err error) {
	dir, err := inMemory()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, err
	}
	editor := os.Getenv("VISUAL")
	if editor == "" {
		editor = os.Getenv("EDITOR")
	}
	if editor == "" {
		return nil, errors.New("neither VISUAL nor EDITOR names an editor: set one, or use `slipway secret set`")
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the editor failed, and the secret was not changed: %w", err)
	}
	after, _, err = readBounded(path)
	if err == nil && len(after) > mostValue {
		err = fmt.Errorf("the secret has more than %d KiB, which no password or key needs", mostValue>>10)
	}
	return after, err
}

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
	cmd.Flags().StringVar(&name, "name", "", "whose it is, for people")
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
		a.out.Printf("Run `slipway secret rekey` for the %s that are there already.\n", say.Count(len(files), "file"))
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
