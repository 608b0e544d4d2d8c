package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/slipway-gitops/slipway/engine/item"
	"github.com/slipway-gitops/slipway/tests/lab"
)

func defaultSocket() string { return filepath.Join(os.TempDir(), "slipway-lab.sock") }

// change is what a person beside a machine does to it.
type change struct {
	Power     string   `json:"power,omitempty"`
	BootOrder []string `json:"bootOrder,omitempty"`
	Fault     *string  `json:"fault,omitempty"`
	// Health is what a probe of the system's health says; empty where all pass.
	Health *string `json:"health,omitempty"`
	// Links is what the system sees of its links, as item.LinksSeen in JSON.
	Links *item.LinksSeen `json:"links,omitempty"`
}

// listen makes the control socket, which only its owner can open from the
// first moment: Linux takes the mode over from the socket that is bound. What
// a lab that has ended left in its place is removed.
func listen(ctx context.Context, socket string) (net.Listener, error) {
	switch c, err := net.Dial("unix", socket); {
	case err == nil:
		c.Close()
		return nil, fmt.Errorf("another lab answers at %s: stop it, or choose another with --control", socket)
	case errors.Is(err, syscall.ECONNREFUSED):
		if info, err := os.Lstat(socket); err != nil || info.Mode().Type() != os.ModeSocket {
			return nil, fmt.Errorf("%s exists and is not a socket: move it, or choose another with --control", socket)
		}
		if err := os.Remove(socket); err != nil {
			return nil, err
		}
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) }), err)
	}}
	return lc.Listen(ctx, "unix", socket)
}

// serveControl lets the other commands look at the machines and change them
// behind everybody's back, until the context ends.
func serveControl(ctx context.Context, l net.Listener, f *lab.Fleet) error {
	srv := &http.Server{Handler: handler(f), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("control socket: %w", err)
	}
	return nil
}

func handler(f *lab.Fleet) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /machines", func(w http.ResponseWriter, _ *http.Request) {
		all := []lab.State{}
		for _, name := range f.Names() {
			all = append(all, f.Machine(name).State())
		}
		json.NewEncoder(w).Encode(all)
	})
	mux.HandleFunc("GET /calls", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(f.Calls()) })
	mux.HandleFunc("GET /machines/{name}/console", func(w http.ResponseWriter, r *http.Request) {
		m := f.Machine(r.PathValue("name"))
		if m == nil {
			unknown(w, r)
			return
		}
		text, err := m.Console()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(text)
	})
	mux.HandleFunc("POST /machines/{name}", func(w http.ResponseWriter, r *http.Request) {
		m := f.Machine(r.PathValue("name"))
		if m == nil {
			unknown(w, r)
			return
		}
		var c change
		err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&c)
		if err == nil {
			err = c.apply(m)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		json.NewEncoder(w).Encode(m.State())
	})
	return mux
}

func unknown(w http.ResponseWriter, r *http.Request) {
	http.Error(w, fmt.Sprintf("there is no machine %q; slipway-lab machine lists them", r.PathValue("name")), http.StatusNotFound)
}

// apply makes all of a change, or none of it.
func (c change) apply(m *lab.Machine) error {
	var fault lab.Fault
	if c.Fault != nil {
		var err error
		if fault, err = lab.ParseFault(*c.Fault); err != nil {
			return err
		}
	}
	if c.Power != "" && c.Power != "on" && c.Power != "off" {
		return fmt.Errorf("power is on or off, not %q", c.Power)
	}
	if len(c.BootOrder) > 0 {
		if err := m.SetBootOrder(c.BootOrder...); err != nil {
			return err
		}
	}
	if c.Fault != nil {
		m.SetFault(fault)
	}
	if c.Health != nil {
		m.SetSystemHealth(*c.Health)
	}
	if c.Links != nil {
		m.SetLinks(*c.Links)
	}
	m.SetPower(c.Power)
	return nil
}

func machineCommand() *cobra.Command {
	var c change
	var fault, health, links, socket string
	var asJSON bool
	cmd := &cobra.Command{
		Use: "machine [NAME]", Short: "show machines, or change one behind the daemon's back", Args: cobra.MaximumNArgs(1),
		Example: "  slipway-lab machine\n  slipway-lab machine compute-1 --power off\n  slipway-lab machine compute-1 --fault hang",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("fault") {
				c.Fault = &fault
			}
			if cmd.Flags().Changed("health") {
				c.Health = &health
			}
			if links != "" {
				if err := json.Unmarshal([]byte(links), &c.Links); err != nil {
					return fmt.Errorf("--links is no JSON of what is seen of links: %w", err)
				}
			}
			if len(args) == 0 && (c.Power != "" || len(c.BootOrder) > 0 || c.Fault != nil || c.Health != nil || c.Links != nil) {
				return errors.New("which machine? name the one to change")
			}
			states, err := machines(cmd.Context(), socket, args, c)
			if err != nil {
				return err
			}
			return printMachines(cmd.OutOrStdout(), states, asJSON)
		},
	}
	cmd.Flags().StringVar(&c.Power, "power", "", "on or off, at once")
	cmd.Flags().StringSliceVar(&c.BootOrder, "boot-order", nil, "boot targets, first tried first")
	cmd.Flags().StringVar(&fault, "fault", "", "what is wrong with its BMC, with :N for N times, or none (slipway-lab faults lists them)")
	cmd.Flags().StringVar(&health, "health", "", "what the first probe of its system's health says is wrong; empty where all pass")
	cmd.Flags().StringVar(&links, "links", "", "what its system sees of its links, in JSON")
	addClientFlags(cmd, &socket, &asJSON)
	return cmd
}

func addClientFlags(cmd *cobra.Command, socket *string, asJSON *bool) {
	cmd.Flags().StringVar(socket, "control", defaultSocket(), "the lab's unix socket")
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON")
}

// machines asks for all machines, or changes and shows one.
func machines(ctx context.Context, socket string, args []string, c change) ([]lab.State, error) {
	if len(args) == 0 {
		var all []lab.State
		return all, ask(ctx, socket, http.MethodGet, "/machines", nil, &all)
	}
	var one lab.State
	err := ask(ctx, socket, http.MethodPost, "/machines/"+url.PathEscape(args[0]), c, &one)
	return []lab.State{one}, err
}

func printMachines(w io.Writer, states []lab.State, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(states)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MACHINE\tPOWER\tRUNS\tBOOT ORDER\tRESETS\tINSTALLS\tFAULT")
	for _, s := range states {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", s.Name, s.Power, s.Runs, strings.Join(s.BootOrder, ","), s.Counts.Resets, s.Counts.Installs, s.Fault.Kind)
	}
	return t.Flush()
}

// added is what a console has now beyond what it had before. Of a long one only the end is told.
func added(before, now string) string {
	if rest, longer := strings.CutPrefix(now, before); longer {
		return rest
	}
	end := before[max(0, len(before)-4096):]
	if i := strings.LastIndex(now, end); i >= 0 {
		return now[i+len(end):]
	}
	return now
}

func consoleCommand() *cobra.Command {
	var socket string
	var follow bool
	cmd := &cobra.Command{
		Use: "console NAME", Short: "show what a real machine wrote to its serial port", Args: cobra.ExactArgs(1),
		Example: "  slipway-lab console compute-5\n  slipway-lab console compute-5 --follow",
		RunE: func(cmd *cobra.Command, args []string) error {
			shown := ""
			for {
				var text string
				if err := ask(cmd.Context(), socket, http.MethodGet, "/machines/"+url.PathEscape(args[0])+"/console", nil, &text); err != nil {
					return err
				}
				if _, err := io.WriteString(cmd.OutOrStdout(), added(shown, text)); err != nil || !follow {
					return err
				}
				shown = text
				select {
				case <-cmd.Context().Done():
					return nil
				case <-time.After(time.Second):
				}
			}
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what it writes, until interrupted")
	cmd.Flags().StringVar(&socket, "control", defaultSocket(), "the lab's unix socket")
	return cmd
}

func callsCommand() *cobra.Command {
	var socket string
	var asJSON, writes bool
	cmd := &cobra.Command{
		Use: "calls", Short: "show what the BMCs were asked", Args: cobra.NoArgs,
		Example: "  slipway-lab calls --writes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var calls []lab.Call
			if err := ask(cmd.Context(), socket, http.MethodGet, "/calls", nil, &calls); err != nil {
				return err
			}
			return printCalls(cmd.OutOrStdout(), calls, writes, asJSON)
		},
	}
	cmd.Flags().BoolVar(&writes, "writes", false, "only requests that asked for a change")
	addClientFlags(cmd, &socket, &asJSON)
	return cmd
}

func printCalls(w io.Writer, calls []lab.Call, writes, asJSON bool) error {
	shown := []lab.Call{}
	for _, c := range calls {
		if !writes || c.Write() {
			shown = append(shown, c)
		}
	}
	if asJSON {
		return json.NewEncoder(w).Encode(shown)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range shown {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\n", c.When.Format("15:04:05.000"), c.Machine, c.Method, c.Path, c.Status)
	}
	return t.Flush()
}

// ask sends one request to the lab's socket.
func ask(ctx context.Context, socket, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://lab"+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("no lab answers at %s: start one with slipway-lab run, or say where it is with --control: %w", socket, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
		return errors.New(string(bytes.TrimSpace(said)))
	}
	return json.NewDecoder(resp.Body).Decode(into)
}
