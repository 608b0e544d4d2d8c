// Command slipway-lab runs a fleet of machines that are simulated, or emulated by QEMU, made from a
// site's design, so that the design can be rehearsed before it meets machines.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/tests/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := command()
	if err := cmd.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "slipway-lab:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "slipway-lab", Short: "a fleet of simulated and emulated machines for rehearsing a site",
		Example: "  slipway-lab run --site site-example --credentials ./credentials --blank compute-5,compute-6 --power off\n" +
			"  slipway-lab machine compute-1 --power off\n  slipway-lab calls --writes",
		SilenceUsage: true, SilenceErrors: true, CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	cmd.AddCommand(runCommand(), machineCommand(), faultsCommand(), callsCommand(), consoleCommand(), caCommand(), hostKeyCommand(), evaluateCommand())
	return cmd
}

func faultsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "faults", Short: "list what can be wrong with a machine's BMC", Args: cobra.NoArgs,
		Example: "  slipway-lab faults\n  slipway-lab machine compute-1 --fault busy:3",
		RunE: func(cmd *cobra.Command, _ []string) error {
			t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, kind := range lab.FaultKinds {
				fmt.Fprintf(t, "%s\t%s\n", kind, lab.FaultText(kind))
			}
			return t.Flush()
		},
	}
}

func caCommand() *cobra.Command {
	var seed string
	cmd := &cobra.Command{
		Use: "ca", Short: "print the certificate authority of the fleet's BMCs", Args: cobra.NoArgs,
		Example: "  slipway-lab ca --seed example",
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(lab.CAPEM(seed))
			return err
		},
	}
	addSeed(cmd, &seed)
	return cmd
}

func hostKeyCommand() *cobra.Command {
	var seed string
	cmd := &cobra.Command{
		Use: "hostkey NAME", Short: "print the SSH host key of a machine's installed system", Args: cobra.ExactArgs(1),
		Example: "  slipway-lab hostkey compute-1 --seed example",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), lab.HostKey(seed, args[0]))
			return err
		},
	}
	addSeed(cmd, &seed)
	return cmd
}

func addSeed(cmd *cobra.Command, seed *string) {
	cmd.Flags().StringVar(seed, "seed", "example", "what keys, certificates and images derive from")
}

// evaluateCommand is the worker process of package design.
func evaluateCommand() *cobra.Command {
	return &cobra.Command{Use: "evaluate", Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		return design.Work(os.Stdin, os.Stdout)
	}}
}
