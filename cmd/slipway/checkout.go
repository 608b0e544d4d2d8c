package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	agelib "filippo.io/age"
	"filippo.io/age/plugin"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/sops"
)

// sealFlags say which repository and identity a command about secrets works with.
type sealFlags struct {
	site, identity, credentials string
	plugins                     []string
	// yes says that nobody is asked before others can read a secret.
	yes bool
	// file and key are those of a secret in a file of SOPS; empty for a sealed one.
	file, key string
}

func (f *sealFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	flags.StringArrayVar(&f.plugins, "plugin", nil, "`NAME` of a plugin of age that may be run, as age-plugin-NAME; may be given several times")
	addIdentity(cmd, &f.identity)
	addCredentials(cmd, &f.credentials)
}

func (f *sealFlags) addYes(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask before new recipients can read secrets")
}

func (f *sealFlags) addSOPS(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "file", "", "file of SOPS in the folder secrets/ that has the secret, such as site.sops.yaml")
	cmd.Flags().StringVar(&f.key, "key", "", "path of the secret's object in --file, such as bmc")
}

// checkout is a repository that a person has, and what opens its secrets.
type checkout struct {
	root string // of the repository
	// tree is the same folder: nothing outside of it is read or written by it.
	tree *os.Root
	site string
	// folder is that of the secrets, from the root.
	folder string
	flags  sealFlags
	means  sealed.Means
	id     *sealed.Identity // nil before it was needed
	err    *screen
}

func openCheckout(w *screen, path string, f sealFlags) (*checkout, error) {
	root, name := located(path, f.site)
	tree, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("%s: there is no such folder: name the one that holds the design", root)
	}
	name, dir, err := design.Home(os.DirFS(root), name)
	if err != nil {
		return nil, err
	}
	if (f.file == "") != (f.key == "") {
		return nil, usage("--file and --key belong together: the file of SOPS, and the path of the secret in it")
	}
	if f.file != "" && (!design.IsSOPS(f.file) || f.file != filepath.Base(f.file)) {
		return nil, usage("--file is the name of a file in the folder secrets/ that ends in .sops.yaml or .sops.json, not %q", f.file)
	}
	c := &checkout{root: root, tree: tree, site: name, folder: filepath.Join(filepath.FromSlash(dir), sealed.Folder), flags: f, err: w}
	c.means = sealed.Means{Plugin: c.pluginIdentity, PluginRecipient: c.pluginRecipient, Passphrase: func() ([]byte, error) { return ask(w, "Passphrase of the key: ") }}
	return c, nil
}

// path is that of a file in the folder of secrets.
func (c *checkout) path(name string) string { return filepath.Join(c.root, c.folder, name) }

// fileOf is the file of a secret.
func (c *checkout) fileOf(name string) string {
	if c.flags.file != "" {
		return c.flags.file
	}
	return name + sealed.Extension
}

// allowed says whether a plugin may be run: the repository names plugins, and whoever
// can merge a line must not choose what runs on a person's computer.
func (c *checkout) allowed(name string) error {
	if !slices.Contains(c.flags.plugins, name) {
		return fmt.Errorf("age-plugin-%s is not run unless you allow it with --plugin %[1]s", name)
	}
	if _, err := exec.LookPath("age-plugin-" + name); err != nil {
		return fmt.Errorf("the program age-plugin-%s is not installed", name)
	}
	return nil
}

func (c *checkout) pluginRecipient(text string) (agelib.Recipient, error) {
	name, _, err := plugin.ParseRecipient(text)
	if err != nil {
		return nil, errors.New("it is not a recipient of a plugin")
	}
	if err := c.allowed(name); err != nil {
		return nil, err
	}
	return plugin.NewRecipient(text, c.terminalUI())
}

func (c *checkout) pluginIdentity(text string) (agelib.Identity, error) {
	name, _, err := plugin.ParseIdentity(text)
	if err != nil {
		return nil, errors.New("the line is not an identity of a plugin")
	}
	if err := c.allowed(name); err != nil {
		return nil, err
	}
	return plugin.NewIdentity(text, c.terminalUI())
}

func (c *checkout) terminalUI() *plugin.ClientUI {
	say := func(format string, v ...any) { c.err.Println(fmt.Sprintf(format, v...)) }
	return plugin.NewTerminalUI(say, say)
}

// ask asks for a secret without showing what is typed.
func ask(w *screen, question string) ([]byte, error) {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, errors.New("nobody is there to type a secret: standard input is not a terminal")
	}
	w.Printf("%s", question)
	text, err := term.ReadPassword(int(os.Stdin.Fd()))
	w.Println()
	return text, err
}

// identity is what opens the secrets.
func (c *checkout) identity() (sealed.Identity, error) {
	if c.id != nil {
		return *c.id, nil
	}
	at := identityAt(c.flags.identity, c.flags.credentials)
	id, err := sealed.Load(at, c.means)
	if errors.Is(err, fs.ErrNotExist) {
		return id, fmt.Errorf("there is no identity at %s: name its file with --identity, or make one with `slipway secret identity`", at)
	}
	if err == nil {
		c.id = &id
	}
	return id, err
}

// listed are the recipients that the site lists, for people to read.
func (c *checkout) listed() ([]sealed.Recipient, error) { return c.readRecipients(sealed.Means{}) }

// recipients are those that the site lists, to seal secrets for.
func (c *checkout) recipients() ([]sealed.Recipient, error) { return c.readRecipients(c.means) }

func (c *checkout) readRecipients(with sealed.Means) ([]sealed.Recipient, error) {
	path := c.path(sealed.RecipientsFile)
	text, err := c.read(sealed.RecipientsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s, so nobody could open a secret: add a recipient with `slipway secret recipients add`; `slipway secret identity` shows that of the daemon's host", path)
	}
	if err != nil {
		return nil, err
	}
	all, err := sealed.ParseRecipients(text, with)
	if err != nil {
		return nil, fmt.Errorf("%s:%w", path, err)
	}
	return all, nil
}

// openedSecret is a secret that a person's identity opens.
type openedSecret struct {
	header sealed.Header
	text   []byte
	// readers are those that the file was encrypted for, as far as that is certain.
	readers []string
}

// open decrypts the secret of a name.
func (c *checkout) open(name string) (openedSecret, error) {
	path := c.path(c.fileOf(name))
	text, err := c.read(c.fileOf(name))
	if errors.Is(err, fs.ErrNotExist) {
		return openedSecret{}, fmt.Errorf("there is no file %s: set the secret with `slipway secret set %s`", path, name)
	}
	if err != nil {
		return openedSecret{}, err
	}
	id, err := c.identity()
	if err != nil {
		return openedSecret{}, err
	}
	if c.flags.file != "" {
		plain, changed, err := sops.Credential(c.flags.file, text, c.flags.key, c.site, id)
		if err != nil {
			return openedSecret{}, fmt.Errorf("%s: %w", path, err)
		}
		return openedSecret{sealed.Header{Site: c.site, Name: name, Changed: changed}, plain, nil}, nil
	}
	h, plain, err := sealed.OpenFor(c.site, name, text, id)
	if err != nil {
		return openedSecret{}, fmt.Errorf("%s: %w", path, err)
	}
	return openedSecret{h, plain, h.Recipients}, nil
}

func checkName(name string) error {
	if !secret.ValidName(name) {
		return usage("%q is not the name of a credential: lower-case letters, digits, '.', '_' and '-', beginning with a letter or digit", name)
	}
	return nil
}
