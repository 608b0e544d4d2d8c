package main

import (
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/pkcs11"
)

// tokenFlags say to which key of a token a secret is sealed.
type tokenFlags struct{ settings, token, key, id string }

func (f *tokenFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.settings, "settings", pkcs11.Settings, "file of this host that names the module and the PIN")
	flags.StringVar(&f.token, "token", "", "label or serial number of the token; without it the only one")
	flags.StringVar(&f.key, "key", "", "`LABEL` of the private key")
	flags.StringVar(&f.id, "key-id", "", "`ID` of the private key in hexadecimal, in place of its label")
}

func (f tokenFlags) sealer() (*sealer, error) {
	id, err := hex.DecodeString(f.id)
	switch {
	case err != nil:
		return nil, usage("--key-id: %q is not hexadecimal, such as 01", f.id)
	case (f.key == "") == (f.id == ""):
		return nil, usage("name the private key, either with --key LABEL or with --key-id ID: pkcs11-tool --login --list-objects shows both")
	}
	s := &sealer{device: "a token"}
	s.seal = func(p pkcs11.Purpose, secret []byte, file string) ([]byte, error) {
		text, to, err := pkcs11.Seal(pkcs11.Choice{Settings: absolute(f.settings), Token: f.token, Key: pkcs11.Key{ID: id, Label: f.key}}, p, secret, file)
		s.device = fmt.Sprintf("the token %s", to)
		return text, err
	}
	return s, nil
}

func (a *app) pkcs11Command() *cobra.Command {
	var to tokenFlags
	cmd := a.sealCommand(&cobra.Command{
		Use: "pkcs11 [DIR]", Short: "seal this host's identity to a key on a token", Args: atMost(1),
		Long: "Encrypts the identity so that only a private key on a token opens it: a smart card, a USB key or\n" +
			"a hardware security module with a PKCS#11 module. The key never leaves the token, and has to be\n" +
			"there. The file --settings names the module and the PIN. With --new it makes another identity,\n" +
			"which is never written unencrypted. DIR is a checkout of the site. Its secrets need another\n" +
			"recipient: when the token is lost, that one opens them.\n" + exitHelp,
		Example: "  slipway secret pkcs11 --key slipway site\n  slipway secret pkcs11 --token 83a1c2d4 --key-id 03 --new site",
	}, func() (*sealer, error) { return to.sealer() })
	to.add(cmd)
	return cmd
}
