// Copyright The sandbox-agent Authors
// SPDX-License-Identifier: Apache-2.0

package manpage

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/sandbox-agent/sandbox-agent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func sample() *cobra.Command {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{
		Use: "tool", Short: "Does things", Example: "  tool group run",
		Long: "Does things, all of them.\nIn two lines.\n\n.hidden is a name\n  as it is\n\\fBnot bold",
	}
	root.PersistentFlags().StringP("output", "o", "table", "table or json")
	group := &cobra.Command{Use: "group", Short: "Holds others"}
	run := &cobra.Command{Use: "run NAME", Short: "Run it", Run: nothing}
	run.Flags().Duration("grace", 0, "how long, as `TIME`")
	run.Flags().Bool("secret", false, "not for everybody")
	run.Flags().Lookup("secret").Hidden = true
	group.AddCommand(run)
	root.AddCommand(group, &cobra.Command{Use: "unseen", Hidden: true, Run: nothing}, Command(nil))
	return root
}

func TestWrite(t *testing.T) {
	var b strings.Builder
	if err := Write(&b, sample(), []Section{{"EXIT STATUS", "0 done."}}, "other(1)"); err != nil {
		t.Fatal(err)
	}
	want := `.TH "TOOL" 1 "" "tool" "User Commands"
.SH NAME
tool \- does things
.SH SYNOPSIS
\fBtool group run\fR [flags] NAME
.br
.SH DESCRIPTION
.PP
Does things, all of them.
In two lines.
.PP
\&.hidden is a name
.PP
.nf
  as it is
.fi
.PP
\efBnot bold
.PP
Examples:
.PP
.nf
  tool group run
.fi
.SH OPTIONS OF EVERY COMMAND
.TP
\fB\-o\fR, \fB\-\-output\fR \fIstring\fR
table or json (default table)
.SH COMMANDS
.SS "group run [flags] NAME"
.PP
Run it.
.TP
\fB\-\-grace\fR \fITIME\fR
how long, as TIME
.SH EXIT STATUS
.PP
0 done.
.SH SEE ALSO
other(1)
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCommandPrintsThePageOfItsRoot(t *testing.T) {
	root := sample()
	var b strings.Builder
	root.SetOut(&b)
	root.SetArgs([]string{"man"})
	if err := root.Execute(); err != nil || !strings.HasPrefix(b.String(), ".TH \"TOOL\"") {
		t.Fatalf("%v: %q", err, b.String())
	}
}
