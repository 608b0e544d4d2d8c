package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/sshca"
)

func (a *app) sshAuthorityCommand() *cobra.Command {
	var f keyFlags
	var epoch int
	cmd := &cobra.Command{
		Use: "ssh-authority SITE", Short: "show the authority that signs SSH certificates", Args: exactly(1),
		Long: "Shows the public key of the authority whose certificates let Slipway and people log in to\n" +
			"the nodes of a site. It follows from the site's root key, the site's name and the epoch,\n" +
			"and is stored nowhere. Write it into the design as site: ssh: users: [\"…\"]. For another\n" +
			"key, write that of the next epoch beside it first; see docs/ssh.md.\n\n" +
			"The second key signs the host keys of the nodes, so that a client that trusts it knows them\n" +
			"all. Write it as site: ssh: hosts: [\"…\"].\n" + exitHelp,
		Example: "  slipway site ssh-authority fra\n  slipway site ssh-authority fra --epoch 2",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := f.load()
			if err != nil {
				return err
			}
			if epoch < 1 {
				return usage("--epoch is a number from 1 to %d", sshca.MostEpoch)
			}
			users, err := sshca.Users(key, args[0], epoch)
			if err != nil {
				return err
			}
			line := users.Public()
			hosts, err := sshca.Hosts(key, args[0], epoch)
			if err != nil {
				return err
			}
			if a.output == "json" {
				return a.out.JSON(map[string]any{"site": args[0], "epoch": epoch, "users": line, "fingerprint": item.Fingerprint(line),
					"hosts": hosts.Public(), "hostsFingerprint": item.Fingerprint(hosts.Public())})
			}
			design := fmt.Sprintf("site: ssh: users: [%q]", line)
			if epoch > 1 {
				design = fmt.Sprintf("site: ssh: {users: [%q], epoch: %d}", line, epoch)
			}
			return a.out.Printf("SSH authority of site %s, epoch %d: %s\nin the design: %s\nfor host keys, %s: site: ssh: hosts: [%q]\n",
				args[0], epoch, item.Fingerprint(line), design, item.Fingerprint(hosts.Public()), hosts.Public())
		},
	}
	cmd.Flags().IntVar(&epoch, "epoch", 1, "which of the keys that follow from the root key")
	f.add(cmd)
	return cmd
}
