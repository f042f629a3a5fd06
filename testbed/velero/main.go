// The original Velero, the peer our tests compare with: command line, server and node agent in one binary.
package main

import (
	"os"
	"path/filepath"

	"github.com/vmware-tanzu/velero/pkg/cmd"
	"github.com/vmware-tanzu/velero/pkg/cmd/velero"
	"k8s.io/klog/v2"
)

func main() {
	defer klog.Flush()
	cmd.CheckError(velero.NewCommand(filepath.Base(os.Args[0])).Execute())
}
