/** Hint of a command about objects that kubectl changes in a cluster. */
export const USE_KUBECTL = "in a cluster kubectl does this: kubectl apply -f, kubectl delete -f";
export const NODE_ONLY =
  "this is about the state of one node: run it there, with --socket or without --kubeconfig; kubectl and etcd keep the cluster's";
export const CLUSTER_ONLY = "name the cluster, as an administrator: --kubeconfig FILE";
/** Hint of a command about machines of Cluster API, of which daemons know nothing. */
export const MACHINES_ONLY = "machines are a cluster's, not a node's: name the cluster, --kubeconfig FILE";
