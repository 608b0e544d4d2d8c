package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/secret"
)

// identityName is the file of the daemon's identity, beside its credentials.
const identityName = "secrets.key"

// serviceIdentity is where the identity of a service is whose credentials systemd
// hands over: they are gone when it stops.
const serviceIdentity = "/var/lib/slipway-key/" + identityName

func addIdentity(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "identity", "", "file with the identity that opens encrypted secrets (SLIPWAY_IDENTITY; default "+identityName+" beside the credentials folder)")
}

// identityAt is where the identity is: where a flag or the environment says so, among
// what systemd handed to the service, or beside the credentials. It is never in the
// state directory or the repository.
func identityAt(path, credentials string) string {
	if path == "" {
		path = os.Getenv("SLIPWAY_IDENTITY")
	}
	if path != "" {
		return absolute(path)
	}
	if credentials == "" || strings.HasPrefix(filepath.Clean(credentials), "/run/") {
		for _, handed := range []string{identityName, "credentials_" + identityName} {
			at := filepath.Join(credentials, handed)
			if _, err := os.Stat(at); credentials != "" && err == nil {
				return at
			}
		}
		return serviceIdentity
	}
	return absolute(filepath.Join(filepath.Dir(filepath.Clean(credentials)), identityName))
}

func (a *app) identityCommand() *cobra.Command {
	var path, credentials, export string
	var postQuantum bool
	cmd := &cobra.Command{
		Use: "identity", Short: "show the recipient of this host's identity, and make one if there is none", Args: exactly(0),
		Long: "The identity opens the secrets that the repository has encrypted. It is a file of mode\n" +
			"0400 outside the repository and the state directory; `age --decrypt --identity` reads it\n" +
			"too. Secrets are sealed for its recipient, which this command shows. --export copies it\n" +
			"into a new file: keep that away from this host.\n" + exitHelp,
		Example: "  slipway secret identity --credentials /etc/slipway/credentials\n  slipway secret identity --export /media/usb/secrets.key",
		RunE: func(*cobra.Command, []string) error {
			kind := sealed.Classic
			if postQuantum {
				kind = sealed.PostQuantum
			}
			at := identityAt(path, credentials)
			id, made, err := sealed.LoadOrCreate(at, kind)
			if err != nil {
				return err
			}
			if export != "" && id.SealedTo() != "" {
				return fmt.Errorf("%s is sealed to %s, and a copy would open nothing without it: the other recipients of the site are the way back", at, id.SealedTo())
			}
			if export != "" {
				if err := exportIdentity(at, export); err != nil {
					return err
				}
			}
			return a.showIdentity(at, export, made, id)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&export, "export", "", "`FILE` to copy the identity into, which must not exist yet")
	flags.BoolVar(&postQuantum, "post-quantum", false, "make a post-quantum identity (age1pq1…); then all recipients must be of that kind")
	addIdentity(cmd, &path)
	addCredentials(cmd, &credentials)
	return cmd
}

func exportIdentity(at, to string) error {
	text, err := os.ReadFile(at)
	if err != nil {
		return err
	}
	defer clear(text)
	if err := keyfile.Write(to, text); errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: an identity is never overwritten. Name another file", to)
	} else if err != nil {
		return fmt.Errorf("copy the identity: %w", err)
	}
	if err := os.WriteFile(secret.CopyNote(at), []byte("copied\n"), 0o600); err != nil {
		return fmt.Errorf("note the copy: %w", err)
	}
	return nil
}

func (a *app) showIdentity(at, export string, made bool, id sealed.Identity) error {
	if a.output == "json" {
		return a.out.JSON(struct {
			File       string   `json:"file"`
			Made       bool     `json:"made"`
			Copy       string   `json:"copy,omitempty"`
			Recipients []string `json:"recipients"`
		}{at, made, export, id.Recipients()})
	}
	a.out.Printf("identity %s\n", at)
	for _, r := range id.Recipients() {
		a.out.Printf("recipient %s\n", r)
	}
	switch {
	case export != "":
		a.out.Printf("copied to %s: keep that file away from this host\n", export)
	case made:
		a.out.Printf("It was made now. Add the recipient with `slipway secret recipients add`, and keep a copy of the identity: `slipway secret identity --export FILE`.\n")
	}
	return nil
}
