"""Read rows judged: names resolved, impossible rows quarantined, reruns told apart, engine steps taken out."""
