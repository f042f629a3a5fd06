//go:build tools

package kopia

// Kopia's command line is built from its own package; this keeps what it needs in go.mod.
import _ "github.com/kopia/kopia/cli"
