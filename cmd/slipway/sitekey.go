package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/record"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// serviceKey is where the site key of a service is whose credentials systemd
// hands over: they are gone when it stops.
const serviceKey = "/var/lib/slipway-key/site.key"

func addSiteKey(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "site-key", os.Getenv("SLIPWAY_SITE_KEY"), "file with the site's root key (SLIPWAY_SITE_KEY; default site.key beside the credentials folder)")
}

// siteKeyAt is where the site key is: beside the credentials unless a flag says
// so, and never in the state directory, whose loss it is to outlive.
func siteKeyAt(path, credentials string) string {
	switch {
	case path != "":
		return absolute(path)
	case credentials == "" || strings.HasPrefix(filepath.Clean(credentials), "/run/"):
		return serviceKey
	}
	return absolute(filepath.Join(filepath.Dir(filepath.Clean(credentials)), "site.key"))
}

// absolute is a path that also means something to whoever reads it elsewhere.
func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// copyNote is beside a key of which a copy was made.
func copyNote(path string) string { return path + ".exported" }

// openSiteKey loads the site's key. A site that never had one is given one; one
// whose key is missing goes on without, as a new key would prove nothing of what
// the old one has signed. Why there is none is the second result.
func openSiteKey(ctx context.Context, path string, records *record.Site, observe bool, log *slog.Logger) (*sitekey.Key, error) {
	book, err := records.Book(ctx)
	if err != nil {
		return nil, err
	}
	key, err := sitekey.Load(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return key, err
	case observe:
		return nil, nil // it signs nothing
	}
	if book.Key != "" {
		return nil, fmt.Errorf("the site key is missing: %s is not there. Put its copy back (`slipway site import-key`), or make a new one (`slipway site init-key`): "+
			"then machines that the old key signed for count as unproven if the records are lost", path)
	}
	key, made, err := sitekey.LoadOrCreate(path)
	if made {
		log.Info("site key made", "file", path, "public", key.Public())
	}
	return key, err
}

// keyNotes says how to keep a copy of the site key until one was made.
func keyNotes(path string, key *sitekey.Key) func() []string {
	return func() []string {
		if key == nil {
			return nil
		}
		if _, err := os.Stat(copyNote(path)); err == nil {
			return nil
		}
		return []string{fmt.Sprintf("the site key %s has no copy yet: run `slipway site export-key FILE` and keep the file away from this host", path)}
	}
}

func (a *app) siteCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "site", Short: "make, show and keep the site's root key", Args: knownCommand,
		Long: "The root key signs what Slipway has to trust after it lost its records: the markers\n" +
			"inside machines, the ledger of approvals, host keys and the daemon's term. It is a file\n" +
			"outside the state directory; see docs/site-key.md.\n" + exitHelp,
		Example: "  slipway site init-key\n  slipway site key\n  slipway site export-key /media/usb/site.key",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.initKeyCommand(), a.keyCommand(), a.exportKeyCommand(), a.importKeyCommand(), a.siteTPMCommand(), a.sitePKCS11Command(), a.sshAuthorityCommand(), a.tlsAuthorityCommand())
	return cmd
}

// keyFlags say where the key is.
type keyFlags struct{ path, credentials string }

func (f *keyFlags) add(cmd *cobra.Command) {
	addSiteKey(cmd, &f.path)
	addCredentials(cmd, &f.credentials)
}

func (f keyFlags) at() string { return siteKeyAt(f.path, f.credentials) }

func (f keyFlags) load() (*sitekey.Key, error) {
	key, err := sitekey.Load(f.at())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no site key at %s: name its file with --site-key, make one with `slipway site init-key`, or put a copy back with `slipway site import-key`", f.at())
	}
	return key, err
}

func (a *app) initKeyCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "init-key", Short: "make the site's root key", Args: exactly(0),
		Long: "Makes a new root key in a file that must not exist yet, and shows its public half. Write\n" +
			"that into the design as site: keys: [\"…\"]; while you change keys, write both.\n" + exitHelp,
		Example: "  slipway site init-key --site-key /etc/slipway/site.key",
		RunE: func(*cobra.Command, []string) error {
			key, err := sitekey.Create(f.at())
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s exists: a site key is never overwritten. To change it, name another file with --site-key", f.at())
			}
			if err != nil {
				return err
			}
			return a.showKey(f.at(), key)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) keyCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "key", Short: "show the public half of the site's root key", Args: exactly(0),
		Long:    "Shows what to write into the design as site: keys.\n" + exitHelp,
		Example: "  slipway site key --credentials /etc/slipway/credentials",
		RunE: func(*cobra.Command, []string) error {
			key, err := f.load()
			if err != nil {
				return err
			}
			return a.showKey(f.at(), key)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) showKey(path string, key *sitekey.Key) error {
	if a.output == "json" {
		return a.out.JSON(map[string]string{"file": path, "public": key.Public()})
	}
	return a.out.Printf("site key %s\nin the design: site: keys: [%q]\n", path, key.Public())
}

func (a *app) exportKeyCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "export-key FILE", Short: "copy the site's root key", Args: exactly(1),
		Long: "Copies the root key into a new file that only you can read. Keep it away from this host:\n" +
			"with the key and the repository you can rebuild a lost host.\n" + exitHelp,
		Example: "  slipway site export-key /media/usb/site.key",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := f.load()
			if err != nil {
				return err
			}
			if err := key.Save(args[0]); err != nil {
				return err
			}
			if err := os.WriteFile(copyNote(f.at()), []byte(key.Public()+"\n"), 0o600); err != nil {
				return fmt.Errorf("note the copy: %w", err)
			}
			return a.showKey(args[0], key)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) importKeyCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use: "import-key FILE", Short: "put a copy of the site's root key back", Args: exactly(1),
		Long: "Copies an exported root key to where the daemon looks for it. Restart the daemon\n" +
			"afterwards.\n" + exitHelp,
		Example: "  slipway site import-key /media/usb/site.key",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := sitekey.Load(args[0])
			if err != nil {
				return err
			}
			err = key.Save(f.at())
			if there, lerr := sitekey.Load(f.at()); errors.Is(err, fs.ErrExist) && lerr == nil && there.Public() == key.Public() {
				err = nil
			}
			if err = cmp.Or(err, os.WriteFile(copyNote(f.at()), []byte(key.Public()+"\n"), 0o600)); err != nil {
				return err
			}
			return a.showKey(f.at(), key)
		},
	}
	f.add(cmd)
	return cmd
}
