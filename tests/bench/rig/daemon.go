package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/slipway-gitops/slipway/engine/control"
	"github.com/slipway-gitops/slipway/engine/site"
)

// Daemon keeps a site whose machines are on loopback.
type Daemon struct {
	Ask   *control.Client
	Begun time.Time
	dir   string
	cmd   *exec.Cmd
}

// Work is the work tree of the site in a daemon's folder, Repo the repository
// that the daemon follows.
func Work(dir string) string { return filepath.Join(dir, "work") }

// Repo is the repository that the daemon of a folder follows.
func Repo(dir string) string { return filepath.Join(dir, "site.git") }

// Start makes a repository of a site's files in an empty folder and starts a
// daemon that has never seen it. The user admin with the password opens every
// BMC.
func Start(dir string, files map[string]string, password string) (*Daemon, error) {
	if err := Publish(dir, files); err != nil {
		return nil, err
	}
	return Follow(dir, "file://"+Repo(dir), map[string]string{"bmc": Account("127.0.0.0/8", password)})
}

// Publish makes the repository of a site's files in an empty folder.
func Publish(dir string, files map[string]string) error {
	for _, step := range []func() error{
		func() error { return Write(Work(dir), files) },
		func() error { return Git(Work(dir), "init", "-q", "-b", "main") },
		func() error { return Git(Work(dir), "add", "-A") },
		func() error { return Git(Work(dir), "commit", "-q", "-m", "site") },
		func() error { return Git(dir, "clone", "-q", "--bare", Work(dir), Repo(dir)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Account is a credential of the user admin, for the BMCs at some hosts.
func Account(hosts, password string) string {
	return "hosts: " + hosts + "\nuse: redfish\nports: 1-65535\nusername: admin\n\n" + password + "\n"
}

// Follow starts a daemon that has never seen a repository, with credentials by
// name and more flags, in a folder of its own.
func Follow(dir, repo string, credentials map[string]string, flags ...string) (*Daemon, error) {
	d := &Daemon{dir: dir, Ask: control.Dial(control.Socket(filepath.Join(dir, "state")))}
	err := os.Mkdir(filepath.Join(dir, "credentials"), 0o700)
	if err == nil {
		err = Write(filepath.Join(dir, "credentials"), credentials)
	}
	if err == nil {
		err = d.start(append([]string{"run", "--repo", repo, "--branch", "main",
			"--state", filepath.Join(dir, "state"), "--credentials", filepath.Join(dir, "credentials"), "--artifact-listen", "127.0.0.1:0"}, flags...))
	}
	return d, err
}

func (d *Daemon) start(args []string) error {
	out, err := os.Create(filepath.Join(d.dir, "log"))
	if err != nil {
		return err
	}
	defer out.Close()
	d.cmd = exec.Command(Binary(), args...)
	d.cmd.Stderr, d.cmd.Stdout = out, out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	d.Begun = time.Now()
	return d.cmd.Start()
}

// Close ends the daemon, and shows the log's end after an error.
func (d *Daemon) Close(failed error) {
	if d.cmd != nil && d.cmd.Process != nil {
		d.cmd.Process.Signal(syscall.SIGTERM)
		d.cmd.Wait()
	}
	d.Ask.Close()
	if failed != nil {
		text, _ := os.ReadFile(filepath.Join(d.dir, "log"))
		fmt.Fprintf(os.Stderr, "the daemon's log ends:\n%s\n", text[max(0, len(text)-2000):])
	}
}

// InSync waits until all of n nodes are, and gives the status.
func (d *Daemon) InSync(ctx context.Context, n int) (site.Status, error) {
	for {
		r, err := d.Ask.Report(context.Background(), "")
		if err == nil && r.Status.Counts()[site.InSync] == n {
			return r.Status, nil
		}
		select {
		case <-ctx.Done():
			return site.Status{}, fmt.Errorf("not in-sync in time: %v %w", r.Status.Counts(), err)
		case <-time.After(2 * time.Second): // asking takes the processors' time too
		}
	}
}

// Usage is the CPU time and resident memory of the daemon and its workers.
func (d *Daemon) Usage() (cpu time.Duration, rss int64, err error) { return Usage(d.cmd.Process.Pid) }

// PID is the number of the daemon's process.
func (d *Daemon) PID() int { return d.cmd.Process.Pid }
