package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	fleet, site, name, credentials, power, socket, inside string
	blank, real                                           []string
	captures                                              []string
	// over is what other flags set over the fleet, as far as given says that
	// they were given.
	over  lab.Config
	given func(flag string) bool
}

func runCommand() *cobra.Command {
	f := runFlags{over: lab.Config{Latency: lab.Usual}}
	cmd := &cobra.Command{
		Use: "run", Short: "run the machines of a site's design, or of a file", Args: cobra.NoArgs,
		Long: "Runs one simulated machine for each node of a design, at the loopback addresses\n" +
			"of its endpoints, with the accounts of the credentials; or the machines of a JSON\n" +
			"file, each with the personality that it names: " + strings.Join(lab.Personalities, ", ") + ".\n" +
			"With --capture a machine shows the resources of a real BMC, and lives: its power,\n" +
			"boot settings, media and firmware settings change as a client changes them.\n" +
			"With --real a computer that QEMU emulates is behind the BMC of a machine: it boots\n" +
			"what is inserted, and writes what it installs to its drives.\n" +
			"Prints one line when they are ready, and ends on an interrupt.",
		Example: "  slipway-lab run --site site-example --credentials ./credentials --blank compute-5,compute-6 --speed 10\n" +
			"  slipway-lab run --fleet fleet.json --bmc-port 8443\n" +
			"  slipway-lab run --site site-example --credentials ./credentials --real compute-5 --folder ./drives\n" +
			"  slipway-lab run --capture r750.json.gz\n\n" +
			"A fleet:\n" +
			`  {"machines": [{"name": "n1", "bmcAddr": "127.9.0.1", "username": "admin", "password": "admin",` + "\n" +
			`    "personality": "idrac9", "identity": {"uuid": "5e1d0000-0000-4000-8000-000000000001"}}], "latency": {"powerOn": "30s"}}`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.given = cmd.Flags().Changed
			return run(cmd.Context(), cmd, f)
		},
	}
	addRunFlags(cmd, &f)
	return cmd
}

func addRunFlags(cmd *cobra.Command, f *runFlags) {
	flags := cmd.Flags()
	flags.StringVar(&f.site, "site", "", "folder with the design")
	flags.StringVar(&f.name, "name", "", "the site's name, when the folder has several")
	flags.StringVar(&f.credentials, "credentials", "", "folder with the credentials that the machines accept")
	flags.StringVar(&f.fleet, "fleet", "", "JSON file with the machines, instead of a design")
	flags.StringSliceVar(&f.captures, "capture", nil, "file with the resources of a real BMC, for one machine that shows them; instead of a design")
	flags.StringSliceVar(&f.blank, "blank", nil, "machines with nothing on their disks")
	flags.StringSliceVar(&f.real, "real", nil, "machines to emulate by QEMU instead of simulating them; off at first")
	flags.StringVar(&f.over.Folder, "folder", "", "folder with the drives of real machines; without it they are removed at the end")
	flags.StringVar(&f.inside, "inside", "", "JSON file with what is set in systems that are there: fields by machine, facet and item; \"*\" is every machine")
	flags.StringVar(&f.power, "power", "", "on or off: how all machines start, but blank ones, which are off; as designed without it")
	flags.StringVar(&f.socket, "control", defaultSocket(), "unix socket for slipway-lab machine and calls")
	flags.IntVar(&f.over.BMCPort, "bmc-port", 0, "port of all BMCs")
	flags.IntVar(&f.over.SSHPort, "ssh-port", 0, "port of all systems")
	flags.IntVar(&f.over.ImagePort, "image-port", 0, "port of the image server")
	flags.Float64Var(&f.over.Speed, "speed", 1, "how much faster than real machines")
	l := &f.over.Latency
	flags.DurationVar(&l.GET, "get", l.GET, "time to answer a read")
	flags.DurationVar(&l.Write, "write", l.Write, "time to answer a write")
	flags.DurationVar(&l.PowerOn, "power-on", l.PowerOn, "time from power-on to its effect")
	flags.DurationVar(&l.PowerOff, "power-off", l.PowerOff, "time of a shutdown")
	flags.DurationVar(&l.Boot, "boot", l.Boot, "time from power-on to the system answering")
	flags.DurationVar(&l.Install, "install", l.Install, "time of an installation")
	flags.Float64Var(&l.Jitter, "jitter", 0, "share by which each of these varies, 0 to 1")
	flags.BoolVar(&l.Tails, "tails", false, "let each vendor's answers vary as those of its BMCs do")
	addSeed(cmd, &f.over.Seed)
}

func run(ctx context.Context, cmd *cobra.Command, f runFlags) error {
	config, err := fleet(ctx, f)
	if err != nil {
		return err
	}
	running, err := lab.Start(config)
	if err != nil {
		return err
	}
	defer running.Close()
	l, err := listen(ctx, f.socket)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	ready := fmt.Sprintf("lab: %d machines ready, BMCs on port %d, control at %s\n", len(config.Machines), running.BMCPort(), f.socket)
	if len(f.captures) > 0 {
		for _, name := range running.Names() {
			ready += fmt.Sprintf("%s: %s, admin, admin\n", name, running.BMCURL(name))
		}
	}
	fmt.Fprint(cmd.OutOrStdout(), ready)
	return serveControl(ctx, l, running)
}

// fleet makes the fleet's configuration from the design or the file, and the
// flags.
func fleet(ctx context.Context, f runFlags) (config lab.Config, err error) {
	switch {
	case f.power != "" && f.power != "on" && f.power != "off":
		err = fmt.Errorf("--power is on or off, not %q", f.power)
	case len(f.captures) > 0 && f.fleet == "" && f.site == "" && f.credentials == "":
		config, err = ofCaptures(f)
	case f.fleet != "" && len(f.captures) == 0 && f.site == "" && f.credentials == "":
		config, err = readFleet(f)
	case f.fleet == "" && len(f.captures) == 0 && f.site != "" && f.credentials != "":
		config, err = rehearse(ctx, f)
	default:
		err = errors.New("which machines? give --site with the design and --credentials with the accounts that they accept, or --fleet with a file, or --capture with resources of a real BMC")
	}
	if err != nil {
		return config, err
	}
	f.override(&config)
	if f.inside != "" {
		if err := furnish(config.Machines, f.inside); err != nil {
			return config, err
		}
	}
	if err := config.Empty(f.blank...); err != nil {
		return config, err
	}
	return config, config.MakeReal(f.real...)
}

// furnish sets in systems what a file says.
func furnish(machines []lab.MachineConfig, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var set map[string]map[string]map[string]map[string]string // by machine, facet, item and field
	if err := json.Unmarshal(text, &set); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for i := range machines {
		m := &machines[i]
		if m.Inside == nil {
			m.Inside = map[string]map[string]map[string]string{}
		}
		for _, of := range []string{"*", m.Name} {
			for facet, items := range set[of] {
				if m.Inside[facet] == nil {
					m.Inside[facet] = map[string]map[string]string{}
				}
				maps.Copy(m.Inside[facet], items)
			}
		}
	}
	return nil
}

// override sets what the flags say. A blank machine is off whatever they say
// of the others.
func (f runFlags) override(c *lab.Config) {
	for flag, set := range map[string]func(){
		"seed":       func() { c.Seed = f.over.Seed },
		"speed":      func() { c.Speed = f.over.Speed },
		"bmc-port":   func() { c.BMCPort = f.over.BMCPort },
		"ssh-port":   func() { c.SSHPort = f.over.SSHPort },
		"image-port": func() { c.ImagePort = f.over.ImagePort },
		"get":        func() { c.Latency.GET = f.over.Latency.GET },
		"write":      func() { c.Latency.Write = f.over.Latency.Write },
		"power-on":   func() { c.Latency.PowerOn = f.over.Latency.PowerOn },
		"power-off":  func() { c.Latency.PowerOff = f.over.Latency.PowerOff },
		"boot":       func() { c.Latency.Boot = f.over.Latency.Boot },
		"install":    func() { c.Latency.Install = f.over.Latency.Install },
		"jitter":     func() { c.Latency.Jitter = f.over.Latency.Jitter },
		"tails":      func() { c.Latency.Tails = f.over.Latency.Tails },
		"folder":     func() { c.Folder = f.over.Folder },
		"power": func() {
			for i := range c.Machines {
				c.Machines[i].Power = f.power
			}
		},
	} {
		if f.given(flag) {
			set()
		}
	}
}

// readFleet reads the machines of a file.
func readFleet(f runFlags) (lab.Config, error) {
	file, err := os.Open(f.fleet)
	if err != nil {
		return lab.Config{}, err
	}
	defer file.Close()
	config, err := lab.ReadConfig(file, lab.Config{Seed: f.over.Seed, Latency: lab.Usual})
	if err != nil {
		return config, fmt.Errorf("%s: %w", f.fleet, err)
	}
	return config, nil
}

// ofCaptures makes a machine of each capture, at 127.9.0.1 and on, for the user
// admin with the password admin. Of a capture with several systems each is one.
func ofCaptures(f runFlags) (lab.Config, error) {
	c := lab.Config{Seed: f.over.Seed, Latency: lab.Usual}
	for i, file := range f.captures {
		m := lab.MachineConfig{
			Name: fmt.Sprintf("capture-%d", i+1), BMCAddr: fmt.Sprintf("127.9.%d.%d", i/250, i%250+1), Username: "admin", Password: "admin", Capture: file, Power: "on",
		}
		systems, err := lab.CapturedSystems(file)
		if err != nil {
			return c, err
		}
		if len(systems) > 1 {
			m.SystemID = systems[0]
		}
		c.Machines = append(c.Machines, m)
		head := m.Name
		for _, id := range systems[min(1, len(systems)):] {
			m.Name, m.SystemID, m.Behind, m.BMCAddr = head+"-"+id, id, head, ""
			c.Machines = append(c.Machines, m)
		}
	}
	return c, nil
}

// rehearse makes the machines of a design.
func rehearse(ctx context.Context, f runFlags) (lab.Config, error) {
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
	config.Calm(s)
	config.Seed, config.Latency = f.over.Seed, lab.Usual
	return config, nil
}

func evaluate(ctx context.Context, f runFlags) (*site.Site, error) {
	if _, err := os.Stat(f.site); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	e := &design.Evaluator{Command: []string{self, "evaluate"}}
	defer e.Close()
	r, err := e.Evaluate(ctx, os.DirFS(f.site), f.name)
	if err != nil {
		return nil, err
	}
	for _, finding := range r.Findings {
		if finding.Severity == site.SeverityError {
			return nil, fmt.Errorf("the design is broken: %s (slipway check %s tells all)", finding, f.site)
		}
	}
	return r.Site, nil
}

// account is what a credential opens: its password, or the public half of its
// private key.
func account(store *secret.Store, e site.Endpoint) (lab.Account, error) {
	ask, err := secret.ForEndpoint(e.Credential, e.URL)
	if err != nil {
		return lab.Account{}, err
	}
	v, err := store.Get(ask)
	if err != nil {
		return lab.Account{}, err
	}
	a := lab.Account{Username: v.Username()}
	if !v.IsPEM() {
		a.Password, err = v.Password()
		return a, err
	}
	text, err := v.PEM()
	if err != nil {
		return a, err
	}
	signer, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return a, fmt.Errorf("credential %s is not a private key that can be read", e.Credential)
	}
	a.AuthorizedKeys = []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}
	return a, nil
}
