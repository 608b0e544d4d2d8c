package inside

import (
	"os/exec"
	"syscall"
)

// group gives a program a process group of its own, which ends as a whole.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// nobody is the user and the group of that name in Debian, and in Fedora and RHEL
// since 8. The kernel has it for users that it cannot tell.
const nobody = 65534

// asNobody has a program run as nobody, in no other group.
func asNobody(cmd *exec.Cmd) {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	cmd.Env = append(cmd.Env, "HOME=/nonexistent")
}

// endGroup ends what is left of a program's process group. The number of a group is
// not given to another one while it has a member.
func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // nothing is left, mostly
	}
}
