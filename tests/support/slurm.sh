# A Slurm cluster of this machine with one GPU that stands in, and a command in it. Nothing of it is
# outside of its own namespaces: when the command ends, so do the daemons.
#
#     unshare --mount --pid --fork --kill-child --mount-proc sh slurm.sh FOLDER PORT PORT COMMAND…
set -eu
base=$1 controller=$2 node=$3
shift 3
host=$(hostname -s)
# Jobs look for the configuration here, whatever SLURM_CONF says.
mount -t tmpfs none /etc/slurm
cat >/etc/slurm/slurm.conf <<END
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$base/munge/socket
StateSaveLocation=$base/state
SlurmdSpoolDir=$base/spool
SlurmctldPidFile=$base/slurmctld.pid
SlurmdPidFile=$base/slurmd.pid
SlurmctldPort=$controller
SlurmdPort=$node
SlurmctldLogFile=$base/slurmctld.log
SlurmdLogFile=$base/slurmd.log
SchedulerType=sched/builtin
SelectType=select/cons_tres
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
GresTypes=gpu
KillWait=1
# More CPUs than there may be: jobs ask for as many as nodes have.
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 RealMemory=1000 Gres=gpu:h100:1
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
echo 'Name=gpu Type=h100 File=/dev/null' >/etc/slurm/gres.conf
mkdir -p "$base/munge" "$base/state" "$base/spool"
chmod 700 "$base/munge"
(umask 077 && head -c 128 /dev/urandom >"$base/munge/key")
munged --force --key-file="$base/munge/key" --socket="$base/munge/socket" \
  --pid-file="$base/munge/pid" --log-file="$base/munge/log" --seed-file="$base/munge/seed"
slurmctld
slurmd
until [ "$(sinfo --noheader --format %t)" = idle ]; do sleep 0.1; done
"$@"
