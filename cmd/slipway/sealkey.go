package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

func (a *app) siteTPMCommand() *cobra.Command {
	var to tpmFlags
	cmd := a.sealKeyCommand(&cobra.Command{
		Use: "tpm", Short: "seal the site's root key to the TPM of this host", Args: exactly(0),
		Long: "Encrypts the file of the root key so that only the TPM of this host opens it. It refuses until a\n" +
			"copy of the key was made with `slipway site export-key`: that is the way back when the host or its\n" +
			"TPM is lost. With --pcrs the key opens only after a start of the host in which these registers\n" +
			"hold what they hold now.\n" + exitHelp,
		Example: "  slipway site tpm\n  slipway site tpm --pcrs 4",
	}, func() (*sealer, error) { return to.sealer() })
	to.add(cmd)
	return cmd
}

func (a *app) sitePKCS11Command() *cobra.Command {
	var to tokenFlags
	cmd := a.sealKeyCommand(&cobra.Command{
		Use: "pkcs11", Short: "seal the site's root key to a key on a token", Args: exactly(0),
		Long: "Encrypts the file of the root key so that only a private key on a token opens it, as\n" +
			"`slipway secret pkcs11` does with the identity. It refuses until a copy of the root key was made\n" +
			"with `slipway site export-key`: that is the way back when the token is lost.\n" + exitHelp,
		Example: "  slipway site pkcs11 --key slipway",
	}, func() (*sealer, error) { return to.sealer() })
	to.add(cmd)
	return cmd
}

// sealKeyCommand makes a command that seals the site's root key to a device.
func (a *app) sealKeyCommand(cmd *cobra.Command, to func() (*sealer, error)) *cobra.Command {
	var f keyFlags
	cmd.RunE = func(*cobra.Command, []string) error {
		a.hideMemory()
		s, err := to()
		if err != nil {
			return err
		}
		key, err := f.load()
		if err != nil {
			return err
		}
		if of, err := os.ReadFile(copyNote(f.at())); err != nil || strings.TrimSpace(string(of)) != key.Public() {
			return fmt.Errorf("the site key %s has no copy: once the device or the host is lost, nobody could prove what Slipway did. Run `slipway site export-key FILE`, and keep the file away from this host", f.at())
		}
		if err := key.Seal(f.at(), func(text []byte) ([]byte, error) { return s.seal(pkcs11.SiteKey, text, f.at()) }); err != nil {
			return err
		}
		return a.showSealedKey(f.at(), key.Public(), s.device)
	}
	f.add(cmd)
	return cmd
}

func (a *app) showSealedKey(path, public, to string) error {
	if a.output == "json" {
		return a.out.JSON(map[string]string{"file": path, "public": public, "sealed": to})
	}
	return a.out.Printf("site key %s: sealed to %s\nThe disk, its snapshots and backups may still have it unencrypted. Where that matters, rotate the key: make another one, seal it, and replace this one in the design.\n", path, to)
}
