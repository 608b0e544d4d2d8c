// Package start is the agent in the ramdisk, as its first process. It loads drivers, connects to the network, calls
// the daemon and answers it. It writes to a disk only if the daemon asks it to install a system or to erase disks.
package start

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/sinks/agent/inside"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/hardware"
	"github.com/slipway-gitops/slipway/sinks/agent/inside/run"
	"github.com/slipway-gitops/slipway/sinks/agent/wire"
)

// These are the times of the agent.
const (
	patience    = 15 * time.Minute // without the daemon
	between     = 3 * time.Second  // calls
	afterNo     = 30 * time.Second // after a refusal by the daemon
	devicesIn   = 2 * time.Second  // minimum time of the first look at devices
	devicesPast = 20 * time.Second // maximum wait for it
	look        = 200 * time.Millisecond
	lookLater   = 2 * time.Second // between looks for devices that appear later
)

// mounts are the kernel file systems that the agent needs.
var mounts = []struct{ kind, at string }{
	{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"},
}

// Run is the first process. It ends when the machine powers off or restarts. An error means that it could not
// start.
func Run() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && err != syscall.EBUSY {
			return fmt.Errorf("mount %s: %w", m.at, err)
		}
	}
	c := openConsoles()
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	kernel := strings.TrimSpace(string(release))
	c.say("Slipway agent in memory, Linux %s, %d processors. It changes nothing on the disks unless the daemon asks it to install.", kernel, runtime.NumCPU())
	modules, err := openModules("/lib/modules/" + kernel)
	if err != nil {
		return fmt.Errorf("the ramdisk is not whole: %w", err)
	}
	c.drive(modules)
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	host := inside.Real("/", true)
	c.introduce(hardware.Machine(host))
	words, err := mediumWords(host)
	var settings Settings
	if err == nil {
		settings, err = Parse(string(line), words)
	}
	if err == nil && settings.OverNetwork() && settings.Address.IsValid() {
		err = errors.New("neither the kernel's command line nor a medium names the daemon (slipway.daemon), and with slipway.ip no DHCP server is asked for it")
	}
	if err != nil {
		c.say("The agent cannot call the daemon: %v.", err)
		<-time.After(patience)
	} else if err := c.work(settings, host); err != nil {
		return err
	}
	return c.leave()
}

// drive loads the modules for the machine's devices, and continues with those that appear later.
func (c *console) drive(m *Modules) {
	for _, name := range []string{"af_packet", "efivarfs"} {
		if _, err := m.Load(name); err != nil {
			c.say("%v.", err)
		}
	}
	settled := make(chan int, 1)
	go func() { // a driver may hang on broken hardware
		begun, last, count := time.Now(), time.Now(), 0
		for time.Since(begun) < devicesIn || time.Since(last) < devicesIn/2 {
			asked, err := m.Devices("/sys")
			if asked > 0 {
				last, count = time.Now(), count+asked
			}
			c.wrong(err)
			<-time.After(look)
		}
		settled <- count
		for range time.Tick(lookLater) {
			_, err := m.Devices("/sys")
			c.wrong(err)
		}
	}()
	select {
	case count := <-settled:
		c.say("Drivers for %d kinds of devices are loaded.", count)
	case <-time.After(devicesPast):
		c.say("Some drivers are still looking for their devices. Going on without them.")
	}
}

// wrong reports modules that the kernel rejected. A machine usually works without them.
func (c *console) wrong(err error) {
	if err != nil {
		c.say("%s.", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// introduce prints the machine's identity and hardware.
func (c *console) introduce(m wire.Machine) {
	or := func(s string) string {
		if s == "" {
			return "unknown"
		}
		return s
	}
	c.say("Machine: %s %s, serial number %s, UUID %s.", m.Manufacturer, or(m.Product), or(m.Serial), or(m.UUID))
	for _, p := range m.Ports {
		c.say("Port %s: MAC address %s, driver %s.", p.Name, p.MAC, or(p.Driver))
	}
	for _, d := range m.Disks {
		c.say("Disk %s: %.1f GB, %s, serial number %s.", d.Name, float64(d.Bytes)/1e9, or(d.Model), or(d.Serial))
	}
	if len(m.Ports) == 0 {
		c.say("No network port was found. The ramdisk may lack its driver or its firmware.")
	}
	for _, text := range m.Unread {
		c.say("%s.", text)
	}
}

// program makes the program that answers the daemon's requests.
func program(settings Settings, host *inside.Host, heard *neighbours) *run.Program {
	return &run.Program{
		Host: host, Hardware: hardware.Look, Install: installer(settings.OverNetwork()).Install,
		Machine: func(ctx context.Context, h *inside.Host) wire.Machine { return heard.in(hardware.Observe(ctx, h)) },
	}
}

// work calls the daemon repeatedly, until the daemon has not been reached for too long.
func (c *console) work(settings Settings, host *inside.Host) error {
	reached := time.Now()
	heard := &neighbours{}
	caller := &Caller{
		Settings: settings, Machine: func() wire.Machine { return heard.in(hardware.Machine(host)) }, Said: c.untold,
		Program: program(settings, host, heard),
		Welcomed: func(w wire.Welcome) {
			c.forget() // the daemon has received it
			c.say("Connected to the daemon of the site %s: this machine is the node %s. Waiting for work.", printable(w.Site), printable(w.Node))
		},
	}
	if err := caller.NewKey(); err != nil {
		return err
	}
	n := &network{settings: settings, console: c, resolv: "/etc/resolv.conf", begun: map[string]bool{}, uuid: hardware.Machine(host).UUID}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go n.run(ctx)
	go heard.listen(ctx, inside.Real("/", true)) // its own host, because requests change that of the program
	if settings.OverNetwork() {
		c.say("The agent was started over the network. It asks a DHCP server where the daemon is.")
	} else {
		c.say("Calling the daemon at %s.", settings.Daemon)
	}
	for time.Since(reached) < patience {
		wait := between
		for _, link := range n.links() {
			var known bool
			if caller.Settings, known = n.daemon(link); !known {
				continue
			}
			begun, welcomed := time.Now(), false
			was := caller.Welcomed
			caller.Welcomed = func(w wire.Welcome) { welcomed = true; was(w) }
			err := caller.Call(ctx, link)
			caller.Welcomed = was
			var no *RefusedError
			switch {
			case welcomed:
				reached = time.Now()
				n.keep(caller.Settings)
				c.say("The connection to the daemon ended after %s: %v. Calling again.", time.Since(begun).Round(time.Second), err)
			case errors.As(err, &no):
				c.say("The daemon refuses this machine: %s", printable(no.Text))
				n.doubt(link)
				wait = afterNo
			default:
				c.say("The daemon at %s cannot be reached over %s: %v. Trying again.", caller.Settings.Daemon, link, err)
				n.doubt(link)
			}
		}
		<-time.After(wait)
	}
	c.say("The daemon could not be reached for %s.", patience)
	return nil
}

// printable is the daemon's text for the console.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return -1
		}
		return r
	}, s[:min(len(s), 2000)])
}

// leave boots the disk if it has a system that Slipway installed, and otherwise powers the machine off.
func (c *console) leave() error {
	how, what := syscall.LINUX_REBOOT_CMD_POWER_OFF, "No disk that the agent can read has a system that Slipway installed. Switching the machine off."
	if at, found := provenSystem("/sys/class/block", "/dev", "/mnt"); found {
		how, what = syscall.LINUX_REBOOT_CMD_RESTART, "A system that Slipway has installed is on "+at+". Starting the machine from its disk."
	}
	c.say("%s", what)
	syscall.Sync()
	return syscall.Reboot(how)
}

// Modprobe is the program that the kernel runs when it needs a module: modprobe -q -- NAME.
func Modprobe(args []string) error {
	var name syscall.Utsname
	if err := syscall.Uname(&name); err != nil {
		return err
	}
	var release []byte
	for _, b := range name.Release {
		if b == 0 {
			break
		}
		release = append(release, byte(b))
	}
	m, err := openModules(filepath.Join("/lib/modules", string(release)))
	if err != nil {
		return err
	}
	found, err := m.Load(args[len(args)-1])
	if err == nil && !found {
		err = fmt.Errorf("there is no module for %s", args[len(args)-1])
	}
	return err
}
