package inside

import (
	"os/exec"
	"syscall"
)

// group gives a program its own process group, which is killed as a whole.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// nobody is the user and the group nobody in Debian, and in Fedora and RHEL since 8. The kernel shows it for users
// that it cannot map.
const nobody = 65534

// asNobody makes a program run as nobody, in no other group.
func asNobody(cmd *exec.Cmd) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	cmd.Env = append(cmd.Env, "HOME=/nonexistent")
}

// endGroup kills what is left of a program's process group. The kernel does not reuse a group's number while it has
// a member.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // usually nothing is left
	}
}
