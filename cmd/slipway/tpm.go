package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/keyseal"
	"github.com/slipway-gitops/slipway/engine/pkcs11"
	"github.com/slipway-gitops/slipway/engine/sealed"
	"github.com/slipway-gitops/slipway/engine/tpm"
)

// sealer seals a secret to a device of this host. It writes nothing yet.
type sealer struct {
	device string // as people read it
	// seal seals a secret that a file will hold.
	seal func(p pkcs11.Purpose, secret []byte, file string) ([]byte, error)
	pcrs []int // of a TPM
}

// tpmFlags say to which TPM a secret is sealed.
type tpmFlags struct{ device, pcrs string }

func (f *tpmFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.device, "tpm", tpm.Device, "device of the TPM")
	cmd.Flags().StringVar(&f.pcrs, "pcrs", "", "`NUMBERS` of registers with commas between them; without it the TPM opens what is sealed after any start of this host")
}

func (f tpmFlags) sealer() (*sealer, error) {
	numbers, err := registers(f.pcrs)
	if err != nil {
		return nil, err
	}
	return &sealer{device: "the TPM of this host", pcrs: numbers, seal: func(_ pkcs11.Purpose, secret []byte, _ string) ([]byte, error) {
		return tpm.Seal(absolute(f.device), secret, numbers)
	}}, nil
}

func (a *app) tpmCommand() *cobra.Command {
	var to tpmFlags
	cmd := a.sealCommand(&cobra.Command{
		Use: "tpm [DIR]", Short: "seal this host's identity to its TPM", Args: atMost(1),
		Long: "Encrypts the identity so that only the TPM of this host opens it: a stolen disk or a backup of\n" +
			"the file opens no secret. With --new it makes another identity, which is never written\n" +
			"unencrypted. DIR is a checkout of the site. Its secrets need another recipient: when the host,\n" +
			"its TPM or its mainboard is lost, that one opens them. With --pcrs the identity opens only\n" +
			"after a start of the host in which these registers hold what they hold now.\n" + exitHelp,
		Example: "  slipway secret tpm site\n  slipway secret tpm --new --pcrs 4 site",
	}, func() (*sealer, error) { return to.sealer() })
	to.add(cmd)
	return cmd
}

// sealCommand makes a command that seals the identity of this host to a device.
func (a *app) sealCommand(cmd *cobra.Command, to func() (*sealer, error)) *cobra.Command {
	var f sealFlags
	var isNew, postQuantum bool
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		s, err := to()
		if err != nil {
			return err
		}
		c, err := openCheckout(a.err, folder(args), f)
		if err != nil {
			return err
		}
		kind := sealed.Classic
		if postQuantum {
			kind = sealed.PostQuantum
		}
		return a.sealIdentity(c, isNew, kind, s)
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&isNew, "new", false, "make another identity in place of the present one")
	cmd.Flags().BoolVar(&postQuantum, "post-quantum", false, "make a new post-quantum identity (age1pq1…)")
	return cmd
}

// registers reads the numbers of registers.
func registers(list string) (numbers []int, err error) {
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, usage("--pcrs: %q is not a number", text)
		}
		numbers = append(numbers, n)
	}
	if err := tpm.CheckPCRs(numbers); err != nil {
		return nil, usage("--pcrs: %v", err)
	}
	return numbers, nil
}

// sealIdentity seals the identity of a host, or a new one.
func (a *app) sealIdentity(c *checkout, isNew bool, kind sealed.Kind, to *sealer) error {
	at := identityAt(c.flags.identity, c.flags.credentials)
	if _, err := os.Stat(serviceIdentity); err == nil && at != serviceIdentity {
		return fmt.Errorf("the daemon of this host has the identity %s, and this would seal %s: leave --credentials out, or name it with --identity", serviceIdentity, at)
	}
	id, text, err := sealed.LoadText(at, sealed.Means{})
	isThere := !errors.Is(err, fs.ErrNotExist)
	isNew = isNew || !isThere
	if err != nil && !isNew {
		return err
	}
	defer clear(text)
	if err := c.hasAnother(id, isThere); err != nil {
		return err
	}
	if isNew {
		clear(text)
		if text, err = sealed.Generate(kind); err != nil {
			return err
		}
	}
	closed, err := to.seal(pkcs11.Identity, text, at)
	if err != nil {
		return err
	}
	if err := keyseal.Put(at, closed, text, pkcs11.Identity, isThere); err != nil {
		return fmt.Errorf("the identity was not changed: %w", err)
	}
	if id, err = sealed.Load(at, sealed.Means{}); err != nil {
		return err
	}
	return a.showSealing(at, id, isNew, to)
}

// hasAnother refuses where nobody else could open the secrets once the device is lost, or once the
// present identity is replaced. Of one that is there and does not open nobody knows which of the
// recipients it is: then two have to be listed.
func (c *checkout) hasAnother(id sealed.Identity, isThere bool) error {
	listed, err := c.listed()
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(listed), func(r sealed.Recipient) bool { return slices.Contains(id.Recipients(), r.Text) })
	if len(others) == 0 || isThere && id.IsZero() && len(others) < 2 {
		return errors.New("the site lists no recipient other than this host: once the device or the host is lost, nobody could open its secrets. Add one with `slipway secret recipients add`, keep its identity away from this host, and run `slipway secret rekey`")
	}
	if id.IsZero() {
		return nil // nobody here can open the files: the other recipients rekey them
	}
	files, err := c.sealedFiles()
	if err != nil {
		return err
	}
	for _, file := range files {
		switch state, finding := c.stateOf(file, id, listed, nil); {
		case finding != nil:
			return errors.New(finding.Message)
		case state.Count < 2 || state.Stale:
			return fmt.Errorf("%s is not encrypted for the recipients that the site lists: once the device or the host is lost, nobody might be able to open it. Run `slipway secret rekey`", state.File)
		}
	}
	return nil
}

func (a *app) showSealing(at string, id sealed.Identity, made bool, to *sealer) error {
	if a.output == "json" {
		return a.out.JSON(struct {
			File       string   `json:"file"`
			Made       bool     `json:"made"`
			PCRs       []int    `json:"pcrs,omitempty"`
			Recipients []string `json:"recipients"`
		}{at, made, to.pcrs, id.Recipients()})
	}
	a.out.Printf("identity %s: sealed to %s\n", at, to.device)
	for _, r := range id.Recipients() {
		a.out.Printf("recipient %s\n", r)
	}
	if made {
		a.out.Printf("It was made now. Add the recipient with `slipway secret recipients add`, and run `slipway secret rekey` with the identity of another recipient.\n")
	} else {
		a.out.Printf("The disk, its snapshots and backups may still have it unencrypted. Where that matters, run this again with --new, and set the secrets to new values.\n")
	}
	return nil
}
