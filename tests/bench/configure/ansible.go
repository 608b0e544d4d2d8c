package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/slipway-gitops/slipway/tests/bench/rig"
)

// playbook is the state for Ansible, in its best settings: pipelining, one
// connection for each host that is kept, as many forks as hosts, no facts.
func playbook(key string) string {
	var b strings.Builder
	b.WriteString("- hosts: all\n  gather_facts: false\n  remote_user: root\n  tasks:\n  - file: {path: /etc/bench, state: directory}\n")
	for i := range files {
		fmt.Fprintf(&b, "  - copy: {dest: %q, content: %q, mode: '0644'}\n", filePath(i), fileText(i))
	}
	fmt.Fprintf(&b, "  - copy: {dest: /etc/sysctl.d/60-bench.conf, content: %q, mode: '0644'}\n    notify: load\n", strings.Join(parameters, "\n")+"\n")
	for i := range users {
		fmt.Fprintf(&b, "  - user: {name: %s, shell: /bin/bash}\n", user(i))
		fmt.Fprintf(&b, "  - file: {path: /home/%s/.ssh, state: directory, owner: %s, mode: '0700'}\n", user(i), user(i))
		fmt.Fprintf(&b, "  - copy: {dest: /home/%s/.ssh/authorized_keys, content: %q, owner: %s, mode: '0600'}\n", user(i), key, user(i))
	}
	for i := range 3 {
		fmt.Fprintf(&b, "  - copy: {dest: /etc/systemd/system/%s, content: %q, mode: '0644'}\n", unit(i), unitText)
		fmt.Fprintf(&b, "  - systemd: {name: %s, enabled: true, state: started, daemon_reload: false}\n", unit(i))
	}
	fmt.Fprintf(&b, "  - apt: {name: [%s], state: present}\n", strings.Join(packages, ", "))
	b.WriteString("  handlers:\n  - name: load\n    command: sysctl -p /etc/sysctl.d/60-bench.conf\n")
	return b.String()
}

// ansible runs the playbook on hosts, and gives its wall time and that of the
// processors on the controlling side.
func ansible(dir string, hosts []*host, keyFile, publicKey string) (wall, cpu time.Duration, err error) {
	var inventory strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&inventory, "%s ansible_host=%s ansible_python_interpreter=/usr/bin/python3\n", h.name, h.address)
	}
	err = rig.Write(dir, map[string]string{
		"hosts": inventory.String(), "play.yml": playbook(publicKey),
		"ansible.cfg": fmt.Sprintf("[defaults]\nforks = %d\nhost_key_checking = false\nprivate_key_file = %s\nstrategy = free\n"+
			"[ssh_connection]\npipelining = true\nssh_args = -o ControlMaster=auto -o ControlPersist=600s -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null\ncontrol_path_dir = %s\n",
			len(hosts), keyFile, filepath.Join(dir, "cp")),
	})
	if err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	for range runs {
		cmd := exec.Command("ansible-playbook", "-i", "hosts", "play.yml")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ANSIBLE_CONFIG="+filepath.Join(dir, "ansible.cfg"), "ANSIBLE_NOCOLOR=1", "HOME="+dir)
		out, failed := cmd.CombinedOutput()
		wall, cpu = time.Since(begun), cpu+cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
		if failed == nil {
			return wall, cpu, nil
		}
		err = fmt.Errorf("ansible-playbook: %w: %s", failed, strings.Join(fatal(string(out)), "\n"))
		rig.Progress("%v", err)
	}
	return 0, 0, err
}

// runs is how often the playbook is run until it has brought all hosts to their state, as its
// users run it again for the hosts on which a task failed. What that takes counts.
const runs = 3

// fatal are the lines of Ansible's output that say which task failed, and on which host.
func fatal(out string) (lines []string) {
	task := ""
	for line := range strings.Lines(out) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "TASK "):
			task = line
		case strings.HasPrefix(line, "fatal:"), strings.HasPrefix(line, "failed:"):
			lines = append(lines, task, line[:min(len(line), 1000)])
		}
	}
	return lines
}
