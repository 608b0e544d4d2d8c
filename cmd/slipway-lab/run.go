package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"github.com/slipway-gitops/slipway/engine/design"
	"github.com/slipway-gitops/slipway/engine/secret"
	"github.com/slipway-gitops/slipway/engine/site"
	"github.com/slipway-gitops/slipway/tests/lab"
)

// runFlags say which fleet to run.
type runFlags struct {
	site, name, credentials, seed, power, socket string
	blank                                        []string
	speed                                        float64
	latency                                      lab.Latency
}

func runCommand() *cobra.Command {
	f := runFlags{latency: lab.Usual}
	cmd := &cobra.Command{
		Use: "run --site DIR --credentials DIR", Short: "run the machines of a site's design", Args: cobra.NoArgs,
		Long: "Runs one simulated machine for each node of a design, at the loopback addresses\n" +
			"of its endpoints, with the accounts of the credentials. Ends on an interrupt.",
		Example: "  slipway-lab run --site site-example --credentials ./credentials --blank compute-5,compute-6 --speed 10",
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), cmd, f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.site, "site", "", "folder with the design")
	flags.StringVar(&f.name, "name", "", "the site's name, when the folder has several")
	flags.StringVar(&f.credentials, "credentials", "", "folder with the credentials that the machines accept")
	flags.StringSliceVar(&f.blank, "blank", nil, "machines with nothing on their disks")
	flags.StringVar(&f.power, "power", "", "on or off: how all machines start; as designed without it")
	flags.StringVar(&f.socket, "control", defaultSocket(), "unix socket for slipway-lab machine and calls")
	flags.Float64Var(&f.speed, "speed", 1, "how much faster than real machines")
	flags.DurationVar(&f.latency.GET, "get", f.latency.GET, "time to answer a read")
	flags.DurationVar(&f.latency.Write, "write", f.latency.Write, "time to answer a write")
	flags.DurationVar(&f.latency.PowerOn, "power-on", f.latency.PowerOn, "time from power-on to its effect")
	flags.DurationVar(&f.latency.PowerOff, "power-off", f.latency.PowerOff, "time of a shutdown")
	flags.DurationVar(&f.latency.Boot, "boot", f.latency.Boot, "time from power-on to the system answering")
	flags.DurationVar(&f.latency.Install, "install", f.latency.Install, "time of an installation")
	addSeed(cmd, &f.seed)
	return cmd
}

func run(ctx context.Context, cmd *cobra.Command, f runFlags) error {
	if f.site == "" || f.credentials == "" {
		return errors.New("--site and --credentials are needed: the design, and the accounts that the machines accept")
	}
	config, err := fleet(ctx, f)
	if err != nil {
		return err
	}
	running, err := lab.Start(config)
	if err != nil {
		return err
	}
	defer running.Close()
	fmt.Fprintf(cmd.OutOrStdout(), "lab: %d machines ready, BMCs on port %d, control at %s\n", len(config.Machines), running.BMCPort(), f.socket)
	return serveControl(ctx, f.socket, running)
}

// fleet makes the fleet's configuration from the design.
func fleet(ctx context.Context, f runFlags) (lab.Config, error) {
	s, err := evaluate(ctx, f)
	if err != nil {
		return lab.Config{}, err
	}
	store, err := secret.Open(f.credentials)
	if err != nil {
		return lab.Config{}, err
	}
	config, err := lab.Rehearse(s, func(e site.Endpoint) (lab.Account, error) { return account(store, e) })
	if err != nil {
		return config, err
	}
	config.Calm(s, f.blank)
	for i := range config.Machines {
		if f.power != "" {
			config.Machines[i].Power = f.power
		}
	}
	config.Seed, config.Speed, config.Latency = f.seed, f.speed, f.latency
	return config, nil
}

func evaluate(ctx context.Context, f runFlags) (*site.Site, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	e := &design.Evaluator{Command: []string{self, "evaluate"}, Workers: 1}
	defer e.Close()
	r, err := e.Evaluate(ctx, os.DirFS(f.site), f.name)
	switch {
	case err != nil:
		return nil, err
	case r.Site == nil && len(r.Findings) > 0:
		return nil, fmt.Errorf("the design is broken: %s (slipway check %s tells all)", r.Findings[0], f.site)
	}
	return r.Site, nil
}

// account is what a credential opens: its password, or the public half of its
// private key.
func account(store *secret.Store, e site.Endpoint) (lab.Account, error) {
	u, err := url.Parse(e.URL)
	if err != nil {
		return lab.Account{}, err
	}
	v, err := store.Get(e.Credential, u.Hostname())
	if err != nil {
		return lab.Account{}, err
	}
	a := lab.Account{Username: v.Username()}
	if !strings.Contains(v.Reveal(), "PRIVATE KEY") {
		a.Password = v.Reveal()
		return a, nil
	}
	signer, err := ssh.ParsePrivateKey([]byte(v.Reveal()))
	if err != nil {
		return a, fmt.Errorf("credential %s is not a private key that can be read", e.Credential)
	}
	a.AuthorizedKeys = []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}
	return a, nil
}
