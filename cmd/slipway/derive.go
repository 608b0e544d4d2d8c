package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/derived"
	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/sitekey"
)

// deriveFlags say which password is derived.
type deriveFlags struct {
	keyFlags
	site, uuid, vendor string
	epoch              int
	// numbered says that a person gave the epoch.
	numbered bool
	// token is the file with the LUKS2 token of a disk.
	token string
}

func (a *app) deriveCommand() *cobra.Command {
	var f deriveFlags
	cmd := &cobra.Command{
		Use: "derive NODE PURPOSE [DIR]", Short: "derive a machine's password from the site's root key", Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 3 {
				return usage("derive takes a node, a purpose and, if needed, a folder: slipway secret %s", cmd.Use)
			}
			return nil
		},
		Long: "Derives a password that only this machine and purpose have: HKDF of the site's root key,\n" +
			"the purpose, the machine's UUID in the design and the epoch, in a form that management\n" +
			"controllers take. The same key gives the same password; a raised --epoch the next one.\n" +
			"The purpose \"disk encryption\" gives the passphrase of the node's encrypted disks. Each of them\n" +
			"says in the clear what its passphrase was derived from: `cryptsetup token export --token-id 31\n" +
			"DEVICE` shows it, and --token takes the file. Nobody has signed it: where it names another\n" +
			"machine than the design, such as the board before, --uuid has to name that one too.\n" +
			"Nothing is stored, and no machine is changed. The password is shown only on a terminal;\n" +
			"--output json writes it anywhere.\n" + exitHelp,
		Example: "  slipway secret derive compute-1 \"bmc account slipway\"\n  slipway secret derive compute-1 \"bmc account slipway\" --epoch 2 --vendor lenovo\n  slipway secret derive compute-1 \"disk encryption\"\n  slipway secret derive compute-1 \"disk encryption\" --token token.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.numbered = cmd.Flags().Changed("epoch")
			return a.derive(cmd.Context(), args[0], args[1], folder(args[2:]), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	flags.StringVar(&f.uuid, "uuid", "", "UUID of the machine, instead of the design's")
	flags.StringVar(&f.vendor, "vendor", "", "form of the password: "+strings.Join(derived.Vendors(), ", ")+"; without it one that all of them take")
	flags.IntVar(&f.epoch, "epoch", 1, "number of the password, from 1; raise it for the next password; for \""+derived.Disks+"\" the generation, without it the design's")
	flags.StringVar(&f.token, "token", "", "file with the LUKS2 token 31 of an encrypted disk, which says what its passphrase was derived from")
	f.add(cmd)
	return cmd
}

func (a *app) derive(ctx context.Context, node, purpose, dir string, f deriveFlags) error {
	if a.output != "json" && !a.out.Terminal() {
		return errors.New("a password is shown only on a terminal; to write it elsewhere, pass --output json")
	}
	form, err := derived.FormOf(f.vendor)
	if err != nil {
		return usage("--vendor: %v", err)
	}
	ofDisks := purpose == derived.Disks
	if ofDisks {
		if f.vendor != "" {
			return usage("--vendor is for management controllers: the passphrase of encrypted disks has one form")
		}
		form = derived.DiskForm()
	}
	key, err := f.load()
	if err != nil {
		return err
	}
	var of derived.Of
	if f.token != "" {
		of, err = a.ofToken(ctx, node, purpose, dir, f, key)
	} else {
		of, err = a.ofDesign(ctx, node, purpose, dir, f, key)
	}
	if err != nil {
		return err
	}
	value, err := derived.Password(key, of, form)
	if err != nil {
		return err
	}
	password, err := value.Password()
	if err != nil {
		return err
	}
	if ofDisks {
		a.err.Printf("slipway: derived from the site %s, the machine %s, the generation %d and the site key %s\n",
			site.Printable(of.Site), strings.ToLower(of.Machine), of.Epoch, key.Public())
		if f.token == "" {
			a.err.Printf("slipway: a disk that was made with others has another passphrase: give its token with --token\n")
		}
	}
	if a.output == "json" {
		return a.out.JSON(struct {
			Node     string `json:"node"`
			Purpose  string `json:"purpose"`
			Site     string `json:"site"`
			Machine  string `json:"machine"`
			Epoch    int    `json:"epoch"`
			Key      string `json:"key"`
			Form     string `json:"form"`
			Password string `json:"password"`
		}{node, purpose, of.Site, strings.ToLower(of.Machine), of.Epoch, key.Public(), form.Name, password})
	}
	return a.out.Println(password)
}

// ofDesign returns what the design derives a password of a node from.
func (a *app) ofDesign(ctx context.Context, node, purpose, dir string, f deriveFlags, key *sitekey.Key) (of derived.Of, err error) {
	rev, r, err := evaluateDir(ctx, dir, f.site)
	if err != nil {
		return of, err
	}
	if r.Site == nil {
		return of, a.refuse(rev.Files, r)
	}
	n := r.Site.Nodes[node]
	if n == nil {
		return of, fmt.Errorf("site %s has no node %q", r.Site.Name, node)
	}
	of = derived.Of{Site: r.Site.Name, Purpose: purpose, Machine: f.uuid, Epoch: f.epoch}
	switch {
	case of.Machine != "":
	case purpose == derived.Disks: // those of the machine that was installed
		of.Machine = n.Machine().UUID
	default:
		of.Machine = n.DerivedFrom()
	}
	if of.Machine == "" {
		return of, fmt.Errorf("the design does not say the UUID of %s: add identity.uuid, or give it with --uuid", node)
	}
	if purpose != derived.Disks {
		return of, nil
	}
	if !f.numbered {
		of.Epoch = n.Generation
	}
	if len(r.Site.Keys) > 0 && !slices.Contains(r.Site.Keys, key.Public()) {
		return of, fmt.Errorf("the site key %s at %s is not one of site: keys, so no disk of this design was made with it: name the file of the right key with --site-key. For a disk that was made with an earlier key, give its token with --token", key.Public(), f.at())
	}
	if f.uuid == "" && n.Moved.Known() && n.Identity.UUID != "" && !strings.EqualFold(n.Identity.UUID, of.Machine) {
		a.err.Printf("slipway: %s has moved to another machine; disks that were made before have the passphrase of --uuid %s\n", node, n.Identity.UUID)
	}
	return of, nil
}

// maxToken bounds the token of a disk, in bytes.
const maxToken = 64 << 10

// ofToken returns what the passphrase of a node's disk was derived from, by its token. Whoever has had the disk can have
// written the token, so the machine that it names has to be that of the node, or one that the person names.
func (a *app) ofToken(ctx context.Context, node, purpose, dir string, f deriveFlags, key *sitekey.Key) (of derived.Of, err error) {
	if purpose != derived.Disks || f.numbered {
		return of, usage("--token is for %q, and says what --epoch would", derived.Disks)
	}
	file, err := os.Open(f.token)
	if err != nil {
		return of, err
	}
	defer file.Close()
	var token item.LUKSToken
	if err := json.NewDecoder(io.LimitReader(file, maxToken)).Decode(&token); err != nil || !token.IsOurs() {
		return of, fmt.Errorf("%s is not a token of Slipway: export it from the disk with `cryptsetup token export --token-id 31 DEVICE`", f.token)
	}
	if token.Key != key.Public() {
		return of, fmt.Errorf("the disk was made with the site key %s, and the one at %s is %s: name the file of that key with --site-key", site.Printable(token.Key), f.at(), key.Public())
	}
	if f.uuid != "" && !strings.EqualFold(f.uuid, token.Machine) {
		return of, fmt.Errorf("the token names the machine %s, and --uuid %s: the disk is of another machine, or somebody has changed its token", site.Printable(token.Machine), f.uuid)
	}
	if err := a.isOf(ctx, token.Machine, node, dir, f); err != nil {
		return of, err
	}
	return derived.Of{Site: token.Site, Purpose: purpose, Machine: token.Machine, Epoch: token.Generation}, nil
}

// isOf checks that the machine of a token is that of the node, by the design or by --uuid. That of another node never is.
func (a *app) isOf(ctx context.Context, machine, node, dir string, f deriveFlags) error {
	says := fmt.Sprintf("the token names the machine %s. Whoever has had the disk can have written that, to learn the passphrase of another machine", site.Printable(machine))
	_, r, err := evaluateDir(ctx, dir, f.site)
	if err != nil || r.Site == nil {
		if f.uuid != "" {
			return nil
		}
		return fmt.Errorf("%s, and there is no design to compare it with in %s: name the folder of the design, or, if you know that this is the machine, --uuid %s", says, dir, site.Printable(machine))
	}
	for name, n := range r.Site.Nodes {
		if name != node && strings.EqualFold(n.Machine().UUID, machine) {
			return fmt.Errorf("%s: in the design that is %s, and you asked for %s", says, name, node)
		}
	}
	n := r.Site.Nodes[node]
	if f.uuid != "" || n != nil && strings.EqualFold(n.Machine().UUID, machine) {
		return nil
	}
	return fmt.Errorf("%s, and in the design %s is not that machine: if you know that it was, for example with another board, give --uuid %s", says, node, site.Printable(machine))
}
