package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/engine/keyfile"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/engine/tlsca"
)

func (a *app) tlsAuthorityCommand() *cobra.Command {
	var f keyFlags
	var epoch int
	cmd := &cobra.Command{
		Use: "tls-authority SITE", Short: "show the certificate of the authority that signs TLS certificates", Args: exactly(1),
		Long: "Shows the certificate of the authority that signs the TLS certificates of the nodes of a\n" +
			"site, for whoever is to trust them. It follows from the site's root key, the site's name\n" +
			"and the epoch, and is the same each time. Write it into the design as\n" +
			"site: tls: authorities: […]. For another authority, write that of the next epoch beside it\n" +
			"first; see docs/certificates.md.\n" + exitHelp,
		Example: "  slipway site tls-authority fra > fra-ca.pem\n  slipway site tls-authority fra --epoch 2",
		RunE: func(_ *cobra.Command, args []string) error {
			key, err := f.load()
			if err != nil {
				return err
			}
			if epoch < 1 {
				return usage("--epoch is a number from 1 to %d", tlsca.MostEpoch)
			}
			authority, err := tlsca.Derive(key, args[0], epoch)
			if err != nil {
				return err
			}
			if a.output == "json" {
				return a.out.JSON(map[string]any{"site": args[0], "epoch": epoch, "certificate": authority.PEM(), "fingerprint": authority.Fingerprint(), "until": authority.Until()})
			}
			for line := range strings.Lines(authority.PEM()) {
				a.out.Println(strings.TrimSuffix(line, "\n"))
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&epoch, "epoch", 1, "which of the keys that follow from the root key")
	f.add(cmd)
	return cmd
}

// mostIntermediate bounds the file of an intermediate, in bytes.
const mostIntermediate = 64 << 10

// openIntermediate reads the file of the authority for TLS whose root is elsewhere; nothing without a path.
func openIntermediate(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := keyfile.Read(path, mostIntermediate)
	if err != nil {
		return nil, fmt.Errorf("the file of the TLS intermediate: %w", err)
	}
	return text, nil
}

func (a *app) certificateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "certificate", Short: "show the TLS certificates of the nodes", Args: knownCommand,
		Long: "Slipway signs the certificates that the design asks for as system.certificates, and renews\n" +
			"them; see docs/certificates.md.\n" + exitHelp,
		Example: "  slipway certificate list",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.certificateListCommand())
	return cmd
}

// nodeCertificate is a certificate as JSON has it.
type nodeCertificate struct {
	Node string `json:"node"`
	site.TLSState
}

func (a *app) certificateListCommand() *cobra.Command {
	var f orderFlags
	cmd := &cobra.Command{
		Use: "list [NODE]", Short: "list the TLS certificates that others may still accept", Args: atMost(1),
		Long: "Lists the TLS certificates that were signed for the nodes, the first to end first: their\n" +
			"names, serial numbers, last moments and states. \"due\" is to be renewed, \"late\" was not\n" +
			"renewed in time, and programs refuse one that is \"over\". \"unseen\" was signed, and not seen\n" +
			"on the node yet. \"replaced\", \"unused\" and\n" +
			"\"revoked\" ones count no longer for Slipway; others accept them until they end.\n" + exitHelp,
		Example: "  slipway certificate list\n  slipway certificate list web-1 --output json",
		RunE: func(cmd *cobra.Command, args []string) error {
			daemon := daemonAt(f.state)
			defer daemon.Close()
			r, err := daemon.Report(cmd.Context(), f.site)
			if err != nil {
				return err
			}
			all, err := certificatesOf(r.Status.Nodes, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return a.printCertificates(all)
		},
	}
	f.add(cmd)
	return cmd
}

// certificatesOf are the certificates of a node, or of all; the first to end first.
func certificatesOf(nodes []site.NodeStatus, node string) ([]nodeCertificate, error) {
	all, is := []nodeCertificate{}, node == ""
	for _, n := range nodes {
		if node != "" && n.Name != node {
			continue
		}
		is = true
		for _, c := range n.Certificates {
			all = append(all, nodeCertificate{n.Name, c})
		}
	}
	if !is {
		return nil, fmt.Errorf("the site has no node %q", site.Printable(node))
	}
	slices.SortStableFunc(all, func(x, y nodeCertificate) int {
		return cmp.Or(x.Until.Compare(y.Until), strings.Compare(x.Node, y.Node))
	})
	return all, nil
}

func (a *app) printCertificates(all []nodeCertificate) error {
	if a.output == "json" {
		return a.out.JSON(all)
	}
	if len(all) == 0 {
		a.out.Println("no TLS certificate was signed")
		return nil
	}
	t := newTable("node", "certificate", "state", "until", "serial", "names")
	for _, c := range all {
		t.AppendRow(table.Row{c.Node, c.Name, c.State, c.Until.UTC().Format(time.DateTime) + "Z", c.Serial, item.List(c.Names)})
	}
	a.out.Println(t.Render())
	return nil
}

// certificateLine is a certificate in use, for one line.
func certificateLine(c site.TLSState) string {
	text := fmt.Sprintf("%s for %s, until %s", c.Name, item.List(c.Names), c.Until.UTC().Format(time.DateOnly))
	if c.State != site.TLSValid {
		text += ", " + c.State
	}
	return text
}
