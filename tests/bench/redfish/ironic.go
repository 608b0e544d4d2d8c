package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
	"github.com/slipway-gitops/slipway/tests/lab"
	"github.com/slipway-gitops/slipway/tests/port"
)

// ironic keeps machines with Debian's Ironic: one conductor and one API without
// authentication, on loopback, with a database in a file.
type ironic struct {
	bench
	dir       string
	url       string // of the API
	conductor *exec.Cmd
	api       *exec.Cmd
}

// ironicConfig turns off what a power sync does not need. The rest is as Ironic
// has it by default, above all sync_power_state_workers, which is 8.
const ironicConfig = `[DEFAULT]
auth_strategy = noauth
rpc_transport = json-rpc
host = 127.0.0.1
my_ip = 127.0.0.1
tempdir = %[1]s
state_path = %[1]s
enabled_hardware_types = redfish
enabled_power_interfaces = redfish
enabled_management_interfaces = redfish
enabled_boot_interfaces = redfish-virtual-media
enabled_deploy_interfaces = ramdisk
enabled_bios_interfaces = no-bios
enabled_console_interfaces = no-console
enabled_inspect_interfaces = no-inspect
enabled_network_interfaces = noop
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[database]
connection = sqlite:///%[1]s/ironic.sqlite
[api]
host_ip = 127.0.0.1
port = %[2]d
api_workers = 1
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = %[3]d
[conductor]
sync_power_state_interval = %[4]d
`

func (i *ironic) enroll(ctx context.Context) (time.Duration, error) {
	if err := i.start(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, m := range i.machines {
		g.Go(func() error { return i.add(gctx, m) })
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	rig.Progress("ironic: all added after %.1f s", time.Since(begun).Seconds())
	err := i.manageable(ctx)
	return time.Since(begun), err
}

// start makes the database and starts the processes, and waits for them.
func (i *ironic) start(ctx context.Context) error {
	if err := os.Mkdir(i.dir, 0o700); err != nil {
		return err
	}
	api, err := port.Free()
	if err != nil {
		return err
	}
	rpc, err := port.Free()
	if err != nil {
		return err
	}
	i.url = fmt.Sprintf("http://127.0.0.1:%d/v1", api)
	config := filepath.Join(i.dir, "ironic.conf")
	err = rig.Write(i.dir, map[string]string{
		"ironic.conf": fmt.Sprintf(ironicConfig, i.dir, api, rpc, int(i.period.Seconds())),
		"ca.pem":      string(i.fleet.CA()),
	})
	if err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "ironic-dbsync", "--config-file", config, "create_schema").CombinedOutput(); err != nil {
		return fmt.Errorf("ironic-dbsync: %w: %s", err, out)
	}
	if i.conductor, err = i.run("ironic-conductor", config); err != nil {
		return err
	}
	if i.api, err = i.run("ironic-api", config); err != nil {
		return err
	}
	return i.ready(ctx)
}

// run starts a program with its output in a file of its name.
func (i *ironic) run(program, config string) (*exec.Cmd, error) {
	out, err := os.Create(i.log(program))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(program, "--config-file", config)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	// Python's requests has a bundle or a proxy of the environment go before
	// what it is told.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + i.dir}
	return cmd, cmd.Start()
}

func (i *ironic) log(program string) string { return filepath.Join(i.dir, program+".log") }

// ready waits until the API answers and the conductor has its driver.
func (i *ironic) ready(ctx context.Context) error {
	for {
		var d struct{ Drivers []struct{ Name string } }
		if err := i.ask(ctx, http.MethodGet, "/drivers", nil, &d); err == nil && len(d.Drivers) > 0 {
			return nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("ironic is not ready: %w", err)
		}
	}
}

// add enrolls a machine and has Ironic look at it for the first time.
func (i *ironic) add(ctx context.Context, m lab.MachineConfig) error {
	_, system, _ := strings.Cut(i.fleet.BMCURL(m.Name), fmt.Sprint(":", i.fleet.BMCPort()))
	node := map[string]any{"name": m.Name, "driver": "redfish", "driver_info": map[string]any{
		"redfish_address":  fmt.Sprintf("https://%s:%d", m.BMCAddr, i.fleet.BMCPort()),
		"redfish_username": m.Username, "redfish_password": m.Password, "redfish_system_id": system,
		"redfish_verify_ca": filepath.Join(i.dir, "ca.pem"), "redfish_auth_type": "session",
	}}
	if err := i.insist(ctx, http.MethodPost, "/nodes", node); err != nil {
		return err
	}
	return i.insist(ctx, http.MethodPut, "/nodes/"+m.Name+"/states/provision", map[string]string{"target": "manage"})
}

// insist asks again while the node is locked or all workers are busy.
func (i *ironic) insist(ctx context.Context, method, path string, body any) error {
	for {
		err := i.ask(ctx, method, path, body, nil)
		var s statusError
		if !errors.As(err, &s) || s.status != http.StatusConflict && s.status != http.StatusServiceUnavailable {
			return err
		}
		if pause(ctx, 250*time.Millisecond) != nil {
			return err
		}
	}
}

// manageable waits until Ironic has read the power state of every machine.
func (i *ironic) manageable(ctx context.Context) error {
	for {
		var all struct {
			Nodes []struct {
				Name           string
				ProvisionState string `json:"provision_state"`
				PowerState     string `json:"power_state"`
				LastError      string `json:"last_error"`
			}
		}
		if err := i.ask(ctx, http.MethodGet, "/nodes?fields=name,provision_state,power_state,last_error&limit=1000", nil, &all); err != nil {
			return err
		}
		n := 0
		for _, node := range all.Nodes {
			if node.ProvisionState == "enroll" && node.LastError != "" {
				return fmt.Errorf("%s: %s", node.Name, node.LastError)
			}
			if node.ProvisionState == "manageable" && node.PowerState == "power on" {
				n++
			}
		}
		if n == len(i.machines) {
			return nil
		}
		if err := pause(ctx, time.Second); err != nil {
			return fmt.Errorf("%d of %d nodes are manageable: %w", n, len(i.machines), err)
		}
	}
}

// statusError is an answer that is no success.
type statusError struct {
	status int
	said   string
}

func (e statusError) Error() string { return fmt.Sprintf("%d %s", e.status, e.said) }

// ask sends one request to the API and reads its answer.
func (i *ironic) ask(ctx context.Context, method, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if body == nil {
		text = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, i.url+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-OpenStack-Ironic-API-Version", "1.80")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	switch {
	case err != nil:
		return err
	case resp.StatusCode >= 300:
		return statusError{resp.StatusCode, fmt.Sprintf("%s %s: %.500s", method, path, answer)}
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (i *ironic) usage() (time.Duration, error) {
	cpu, _, err := rig.Usage(i.conductor.Process.Pid)
	return cpu, err
}

func (i *ironic) close(failed error) {
	for _, cmd := range []*exec.Cmd{i.api, i.conductor} {
		if cmd == nil || cmd.Process == nil {
			continue
		}
		cmd.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		late.Stop()
	}
	if failed == nil {
		return
	}
	for _, program := range []string{"ironic-api", "ironic-conductor"} {
		text, _ := os.ReadFile(i.log(program))
		fmt.Fprintf(os.Stderr, "the log of %s ends:\n%s\n", program, text[max(0, len(text)-2000):])
	}
}
