package servicetest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// ProcessorTime is what a process, and those of its children that live, have had of the
// processors, to a hundredth of a second. Linux tells it.
func ProcessorTime(pid int) (used time.Duration, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	if err != nil {
		return 0, err
	}
	used = time.Duration(stat.CPUTime() * float64(time.Second))
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return 0, err
	}
	for _, child := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(child)
		if err != nil {
			return 0, err
		}
		if theirs, err := ProcessorTime(n); err == nil { // else it has just ended
			used += theirs
		}
	}
	return used, nil
}

// ListenOverflows counts connections that found the accept queue of their listener full, on
// this machine since it started; 0 where the system does not tell.
func ListenOverflows() int {
	self, err := procfs.Self()
	if err != nil {
		return 0
	}
	stat, err := self.Netstat()
	if err != nil || stat.ListenOverflows == nil {
		return 0
	}
	return int(*stat.ListenOverflows)
}
