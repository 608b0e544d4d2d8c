package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/derived"
)

// deriveFlags say which password is derived.
type deriveFlags struct {
	keyFlags
	site, uuid, vendor string
	epoch              int
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
			"Nothing is stored, and no machine is changed. The password is shown only on a terminal;\n" +
			"--output json writes it anywhere.\n" + exitHelp,
		Example: "  slipway secret derive compute-1 \"bmc account slipway\"\n  slipway secret derive compute-1 \"bmc account slipway\" --epoch 2 --vendor lenovo",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.derive(cmd.Context(), args[0], args[1], folder(args[2:]), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.site, "site", "", "the site's name, when the repository has several")
	flags.StringVar(&f.uuid, "uuid", "", "UUID of the machine, instead of the design's")
	flags.StringVar(&f.vendor, "vendor", "", "form of the password: "+strings.Join(derived.Vendors(), ", ")+"; without it one that all of them take")
	flags.IntVar(&f.epoch, "epoch", 1, "number of the password, from 1; raise it for the next password")
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
	key, err := f.load()
	if err != nil {
		return err
	}
	rev, r, err := evaluateDir(ctx, dir, f.site)
	if err != nil {
		return err
	}
	if r.Site == nil {
		return a.refuse(rev.Files, r)
	}
	n := r.Site.Nodes[node]
	if n == nil {
		return fmt.Errorf("site %s has no node %q", r.Site.Name, node)
	}
	of := derived.Of{Site: r.Site.Name, Purpose: purpose, Machine: f.uuid, Epoch: f.epoch}
	if of.Machine == "" {
		of.Machine = n.DerivedFrom()
	}
	if of.Machine == "" {
		return fmt.Errorf("the design does not say the UUID of %s: add identity.uuid, or give it with --uuid", node)
	}
	value, err := derived.Password(key, of, form)
	if err != nil {
		return err
	}
	password, err := value.Password()
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.out.JSON(struct {
			Node     string `json:"node"`
			Purpose  string `json:"purpose"`
			Machine  string `json:"machine"`
			Epoch    int    `json:"epoch"`
			Form     string `json:"form"`
			Password string `json:"password"`
		}{node, purpose, strings.ToLower(of.Machine), of.Epoch, form.Name, password})
	}
	return a.out.Println(password)
}
